"""Unfinite: a loss that is no number, by which a step is made all the same."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from steptime.check.observe.models import Models
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.tensors import is_sharded
from steptime.record.events import Log
from steptime.record.places import site

UNFINITE = "unfinite"
"""What is noted once of a step after which parameters are no numbers: which backward it was by."""


class Unfinite:
    """The first loss of this process that is infinite or no number, until the step by it is made.

    On the CPU alone: to read each loss of a GPU would have the script wait for it.
    """

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._value = ""
        self._number = self._at = 0
        self._over = False

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins at these."""
        if self._over or self._value or len(roots) != 1 or not _is_read(roots[0]):
            return
        value = float(roots[0].detach())
        if not math.isfinite(value):
            self._value, self._number = str(value), self._models.backwards
            self._at = site(self._log)

    def stepped(self, optimizer: Any) -> None:
        """A step was made: what skips bad ones, as a GradScaler does, makes none."""
        if not self._value:
            return
        self._over = not all(map(_is_finite, parameters_of(optimizer)))
        if self._over:
            self._log.note(
                observed=UNFINITE,
                number=self._number,
                value=self._value,
                begun_at=self._at,
                at=site(self._log),
            )
        self._value = ""


def _is_read(tensor: Any) -> bool:
    plain = type(tensor) is torch.Tensor and tensor.numel() == 1 and tensor.is_floating_point()
    return plain and tensor.device.type == "cpu"


def _is_finite(parameter: Any) -> bool:
    local = parameter.detach().to_local() if is_sharded(parameter) else parameter
    return bool(torch.isfinite(local).all())
