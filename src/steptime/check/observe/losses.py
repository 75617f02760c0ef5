"""Losses: what the first backwards begin at, and whether it was summed up over ranks before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from steptime.check.observe.contents import readable
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.tensors import is_followed
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

LOSS = "loss"
"""What is noted of what a backward begins at."""

_MOST = 4
"""So many backwards are looked at: reading a value waits for the device that computes it."""


@dataclass(frozen=True, eq=False)
class _Summed:
    """A scalar with a gradient that is summed up: its value on this rank before, and its version.

    ``tensor``: it, until the backward that may begin at it.
    """

    tensor: torch.Tensor
    value: float
    version: int
    at: int


class Losses:
    """The values at which this process begins its first backwards."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._summed: _Summed | None = None

    def note(self, moved: Moved) -> None:
        """A call is made: of a loss that is still to be differentiated it changes the value alone.

        Autograd sees a division that follows it, and nothing of the sum.
        """
        if self._models.backwards >= _MOST or moved.kind != "all_reduce":
            return
        if self._models.in_backward or len(moved.tensors) != 1:
            return
        tensor = moved.tensors[0]
        if is_followed(tensor) and _is_read(tensor):
            self._summed = _Summed(tensor, float(tensor.detach()), tensor._version, site(self._log))

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins at these."""
        summed, self._summed = self._summed, None
        if self._models.backwards > _MOST or len(roots) != 1 or not _is_read(roots[0]):
            return
        root = roots[0]
        scaled = summed and (root is not summed.tensor or root._version > summed.version)
        self._log.note(
            observed=LOSS,
            number=self._models.backwards,
            value=float(root.detach()),
            own=summed.value if summed and scaled else None,
            summed_at=summed.at if summed and scaled else 0,
            averaged=self._averages(),
            at=site(self._log),
        )

    def _averages(self) -> list[int]:
        """The ranks among which DDP or FSDP will average the gradients."""
        for model in self._models.known:
            wrapped = model.wrapped()
            if wrapped is not None and model.armed and not compat.comm_hooks(wrapped):
                return list(compat.ranks_of(wrapped.process_group))
        of_shards = sorted(self._models.shard_ranks)
        return list(of_shards[0]) if len(of_shards) == 1 else []


def _is_read(tensor: Any) -> bool:
    plain = type(tensor) is torch.Tensor and tensor.numel() == 1
    return plain and tensor.is_floating_point() and readable(tensor)
