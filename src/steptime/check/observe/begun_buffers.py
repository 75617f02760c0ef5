"""Begun buffers: those of sharded models as they are before the first forward."""

import weakref
from collections.abc import Callable, Sequence

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.check.observe.tensors import is_sharded
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

BEGUN_BUFFERS = "begun buffers"
"""What is noted of a model that ``fully_shard`` shards, which sends nothing of its buffers."""

_MOST, _LEAST_ELEMENTS = 200, 2


class BegunBuffers:
    """The models that have run forward."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begun: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._number = 0

    def begun(self, module: torch.nn.Module, ranks: Sequence[int], *_: object) -> None:
        """A model begins a forward, of training or not."""
        if isinstance(module, DistributedDataParallel) or module in self._begun or len(ranks) < 2:
            return
        self._begun.add(module)
        buffers = _compared(module)
        if buffers and len(buffers) <= _MOST:
            self._log.note(
                observed=BEGUN_BUFFERS,
                number=self._number,
                model=type(module).__name__.removeprefix("FSDP"),
                ranks=list(ranks),
                names=list(buffers),
                hashes=[hash_of([one]) for one in buffers.values()],
                at=site(self._log),
            )
            self._number += 1


def _compared(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The buffers that a model computes by: not what batch norms have seen on each rank."""
    return {
        f"{of}.{name}" if of else name: buffer
        for of, module in model.named_modules()
        if not isinstance(module, _BatchNorm)
        for name, buffer in module.named_buffers(recurse=False)
        if buffer.is_floating_point()
        and buffer.numel() >= _LEAST_ELEMENTS
        and not (buffer.is_meta or is_sharded(buffer))
        and readable(buffer)
    }


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    return watched_forwards(Contained("begun buffers"), BegunBuffers(log).begun)


OBSERVER = Observer(_observe)
