"""Resummed: gradients that a script sums up, adds to in another backward, and sums up again."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from steptime.check.observe.buffers import memory_of
from steptime.check.observe.contents import readable
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site

RESUMMED = "resummed"
"""What is noted of such a gradient: what it added up to on this rank before its first sum, and
before the next backward."""

_STEPS, _TENSORS = 4, 4
_LEAST_ELEMENTS = 8


@dataclass(eq=False)
class _Summed:
    """A tensor that was summed up since the last step; ``carried``: as a backward began after."""

    tensor: weakref.ref[torch.Tensor]
    brought: float
    carried: float = 0.0


class Resummed:
    """Some of the first tensors that this process sums up outside of backwards, in each step."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._summed: dict[int, _Summed] = {}
        self._steps = self._noted = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if self._steps > _STEPS or self._models.in_backward or moved.kind != "all_reduce":
            return
        for tensor in moved.tensors if moved.reduction == "sum" else ():
            known = self._summed.get(memory_of(tensor))
            if known is not None and known.tensor() is tensor:
                if known.carried and self._noted < _TENSORS:
                    self._note(known, moved.ranks)
            elif len(self._summed) < _TENSORS and _is_vector(tensor):
                self._summed[memory_of(tensor)] = _Summed(weakref.ref(tensor), _total(tensor))

    def begin(self, _: Sequence[Any]) -> None:
        """A backward begins: what a gradient is by now it adds to, if nobody has cleared it."""
        for one in self._summed.values():
            tensor = one.tensor()
            if tensor is not None and not one.carried and readable(tensor):
                one.carried = _total(tensor)

    def stepping(self) -> None:
        """An optimizer is about to step."""
        self._steps += bool(self._summed)
        self._summed.clear()

    def _note(self, one: _Summed, ranks: Sequence[int]) -> None:
        self._noted += 1
        self._log.note(
            observed=RESUMMED,
            number=self._noted,
            ranks=list(ranks),
            brought=one.brought,
            carried=one.carried,
            at=site(self._log),
        )


def _is_vector(tensor: torch.Tensor) -> bool:
    plain = type(tensor) is torch.Tensor and tensor.is_floating_point()
    return plain and tensor.numel() >= _LEAST_ELEMENTS and readable(tensor)


def _total(tensor: torch.Tensor) -> float:
    return float(tensor.detach().double().sum())
