"""Statistics: what modules of a script's own keep of what they were given, as running means."""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.tensors import is_sharded
from steptime.record.events import Log
from steptime.record.places import site

STATISTICS = "statistics"
"""What is noted after a step of a module whose training forwards have changed its buffers."""

_MOST, _MOST_STEPS = 20, 16


@dataclass(frozen=True, eq=False)
class _Ran:
    """A module, where it ran first, and what its buffers held before.

    ``sent``: DDP gives those of one rank to all others before each forward.
    """

    module: weakref.ref[torch.nn.Module]
    at: int
    before: dict[str, int]
    sent: bool


class Statistics:
    """The modules of this process that have buffers, in the order in which they first ran.

    Not PyTorch's own, of which everybody knows that BatchNorm's are of each rank's own batches.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._ran: list[_Ran] = []
        self._noted = 0

    def running(self, module: torch.nn.Module, *, sent: bool) -> None:
        """A module that has buffers is run in training."""
        if module in self._known or len(self._ran) == _MOST:
            return
        self._known.add(module)
        if not isinstance(module, _NormBase):
            self._ran.append(_Ran(weakref.ref(module), site(self._log), _hashes(module), sent))

    def note(self, step: int) -> None:
        """An optimizer has made so many steps."""
        self._noted += 1
        for number, one in enumerate(self._ran if self._noted <= _MOST_STEPS else ()):
            module = one.module()
            after = {} if module is None else _hashes(module)
            changed = [name for name, value in after.items() if one.before.get(name) != value]
            if changed:
                self._log.note(
                    observed=STATISTICS,
                    number=number,
                    step=step,
                    module=type(module).__name__,
                    names=changed,
                    hashes=[after[name] for name in changed],
                    sent=one.sent,
                    at=one.at,
                )


def _hashes(module: torch.nn.Module) -> dict[str, int]:
    """Of the module's own buffers: numbers that are not whole, and that this rank has all of."""
    own: Any = module.named_buffers(recurse=False)
    return {
        name: hash_of([one])
        for name, one in own
        if one.is_floating_point() and readable(one) and not is_sharded(one)
    }
