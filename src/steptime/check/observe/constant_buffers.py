"""Constant buffers: what DDP sends before each forward though it never changes, as a mask."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

CONSTANT = "constant buffers"
"""What is noted of a model whose buffers are after some forwards what they were before them."""

_LEAST_BYTES = 1 << 16  # of a buffer: to send less takes no time
_COMPARED = 4
"""The forward before which buffers are compared with those of the first one."""


class ConstantBuffers:
    """The large buffers of models that send them, until they are compared."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[torch.nn.Module, _Buffers] = weakref.WeakKeyDictionary()

    def begun(self, module: torch.nn.Module, ranks: Sequence[int], *_: Any) -> None:
        """A model begins a forward, of training or not."""
        if not isinstance(module, DistributedDataParallel) or len(ranks) < 2:
            return
        one = self._of.get(module)
        if one is None:
            one = self._of[module] = _Buffers(len(self._of), _large(module))
        one.forwards += 1
        if one.forwards != _COMPARED or not one.before or not module.will_sync_module_buffers():
            return
        after = {name: hash_of([buffer]) for name, buffer in _large(module).items()}
        kept = [name for name, value in one.before.items() if after.get(name) == value]
        sizes = {name: buffer.nbytes for name, buffer in module.module.named_buffers()}
        if kept:
            self._log.note(
                observed=CONSTANT,
                model=one.number,
                name=type(module.module).__name__,
                largest=max(kept, key=sizes.__getitem__),
                constant=sum(sizes[name] for name in kept),
                nbytes=sum(sizes.values()),
                at=site(self._log),
            )


class _Buffers:
    """``before``: a hash of each large one of a model, as it was before the first forward."""

    def __init__(self, number: int, large: dict[str, torch.Tensor]) -> None:
        self.number, self.forwards = number, 0
        self.before = {name: hash_of([buffer]) for name, buffer in large.items()}


def _large(model: Any) -> dict[str, torch.Tensor]:
    ignored = model.parameters_to_ignore
    return {
        name: buffer
        for name, buffer in model.module.named_buffers()
        if buffer.nbytes >= _LEAST_BYTES and name not in ignored and readable(buffer)
    }


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    return watched_forwards(Contained("constant buffers"), ConstantBuffers(log).begun)


OBSERVER = Observer(_observe)
