"""Modes: whether a model that ranks train together is in the mode of training or of evaluation."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.contained import Contained
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

MODE = "mode"
"""What is noted of a model that has been trained in a mode for some forwards."""

_LASTING = 3
"""A mode in fewer forwards in a row may be meant, as for a trial."""
_MOST = 20
_MOODY = (_BatchNorm, _DropoutNd)


class Modes:
    """The models of this process by number, and since which forward each is in its mode."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted = 0
        self._of: weakref.WeakKeyDictionary[torch.nn.Module, _Model] = weakref.WeakKeyDictionary()

    def begun(self, module: torch.nn.Module, ranks: Sequence[int], *_: Any) -> None:
        """A model begins a forward; with gradients it is one of training."""
        if len(ranks) < 2 or not torch.is_grad_enabled() or self._noted >= _MOST:
            return
        model = self._of.get(module)
        if model is None:
            model = self._of[module] = _Model(len(self._of), _moody(module))
        model.forwards += 1
        # Lightning puts DDP itself into evaluation while its model trains.
        inner = module.module if isinstance(module, DistributedDataParallel) else module
        if inner.training is not model.training:
            model.training, model.since = bool(inner.training), model.forwards
        if model.parts and model.forwards == model.since + _LASTING - 1:
            self._noted += 1
            self._log.note(
                observed=MODE,
                model=model.number,
                ranks=list(ranks),
                training=model.training,
                since=model.since,
                parts=model.parts,
                at=site(self._log),
            )


class _Model:
    """``parts``: the kinds of its modules that compute otherwise when they train."""

    def __init__(self, number: int, parts: Sequence[str]) -> None:
        self.number, self.parts = number, parts
        self.forwards = self.since = 0
        self.training: bool | None = None


def _moody(module: torch.nn.Module) -> list[str]:
    kinds = (type(one).__name__ for one in module.modules() if isinstance(one, _MOODY))
    return list(dict.fromkeys(kinds))


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    return watched_forwards(Contained("modes"), Modes(log).begun)


OBSERVER = Observer(_observe)
