"""Scaled: by which factor a rank scales gradients that are reduced between backward and step."""

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from steptime.check.observe.contents import readable
from steptime.check.observe.models import Models
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.tensors import is_sharded
from steptime.record.events import Log
from steptime.record.places import site

SCALED = "scaled"
"""What is noted before a step: what gradients were multiplied by since the backward."""

_STEPS, _PARAMETERS = 4, 4


class Scaled:
    """Some parameters of the optimizer that stepped first, sharded ones or else those under DDP."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._followed: list[weakref.ref[torch.Tensor]] = []
        self._largest: list[tuple[int, float]] = []
        self._number = -1
        self._steps = self._backwards = 0

    def after_backward(self) -> None:
        """A backward has ended: remember the largest element of each gradient."""
        self._largest = [_largest(one) for one in self._gradients()]

    def stepping(self, number: int, optimizer: Any) -> None:
        """The optimizer ``number`` is about to step."""
        if self._number < 0:
            self._number = number
            trained, replicated = parameters_of(optimizer), self._models.ids()
            sharded = [one for one in trained if is_sharded(one)]
            reduced = sharded or [one for one in trained if id(one) in replicated]
            self._followed = [weakref.ref(one) for one in reduced[:_PARAMETERS]]
        if number != self._number or not self._followed:
            return
        gradients, self._steps = self._gradients(), self._steps + 1
        backwards, self._backwards = self._backwards, self._models.backwards
        if self._largest and len(gradients) == len(self._largest):
            factors = [
                float(one.flatten()[at]) / value
                for one, (at, value) in zip(gradients, self._largest, strict=True)
                if value
            ]
            self._log.note(
                observed=SCALED,
                number=self._steps,
                sharded=any(
                    is_sharded(one) for ref in self._followed if (one := ref()) is not None
                ),
                backwards=self._models.backwards - backwards,
                factors=factors,
                at=site(self._log),
            )
        self._largest = []
        if self._steps > _STEPS:
            self._followed = []

    def _gradients(self) -> Sequence[torch.Tensor]:
        """What the rank has of the gradients that are there, and have elements."""
        of: list[Any] = [one.grad for ref in self._followed if (one := ref()) is not None]
        own: list[torch.Tensor] = [
            one.to_local() if is_sharded(one) else one for one in of if one is not None
        ]
        return [one.detach() for one in own if one.numel() and readable(one)]


def _largest(gradient: torch.Tensor) -> tuple[int, float]:
    flat = gradient.flatten()
    at = int(flat.abs().argmax())
    return at, float(flat[at])
