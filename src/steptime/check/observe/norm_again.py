"""Norm again: the norm of gradients that DDP has averaged, summed up over the ranks once more."""

import math

import torch

from steptime.check.observe.contents import readable
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

NORM_AGAIN = "norm again"
"""What is noted once of a sum of single numbers that are the square of such a norm, or the norm."""

_OFTEN, _MOST, _NEAR = 2, 12, 1e-4  # times; numbers that are looked at; relative


class NormAgain:
    """The single numbers that this process sums up after its first backwards, under DDP."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._looked = self._found = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        sums = moved.kind == "all_reduce" and moved.reduction == "sum"
        if not sums or self._looked == _MOST or self._models.in_backward or not self._models.known:
            return
        if len(moved.tensors) != 1 or moved.tensors[0].numel() != 1:
            return
        number = moved.tensors[0].detach()
        if not number.is_floating_point() or not readable(number):
            return
        self._looked += 1
        squares = self._squares(moved.ranks)
        value = float(number)
        if squares and any(math.isclose(value, one, rel_tol=_NEAR) for one in squares):
            self._found += 1
            if self._found == _OFTEN:
                self._looked = _MOST
                ranks = list(moved.ranks)
                self._log.note(observed=NORM_AGAIN, ranks=ranks, at=site(self._log))

    def _squares(self, ranks: tuple[int, ...]) -> list[float]:
        """The squared norms of the models that the ranks have replicas of, and the norms."""
        found = []
        for model in self._models.known:
            wrapped = model.wrapped()
            if wrapped is None or compat.ranks_of(wrapped.process_group) != ranks:
                continue
            gradients = [one.grad for _, one in model.replicated() if one.grad is not None]
            if model.armed and gradients and all(map(readable, gradients)):
                norms = torch.stack([one.detach().float().norm() for one in gradients])
                found.append(float(norms.square().sum()))
        return [*found, *map(math.sqrt, found)]
