"""Counts: whole numbers that are summed up in a type which has too few bits for their sum."""

from collections import Counter

import torch

from steptime.check.observe.contents import readable
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site

COUNT = "count"
"""What is noted of whole numbers that are summed up as floats of two bytes."""

_SMALL = (torch.bfloat16, torch.float16)
_MOST_ELEMENTS, _MOST = 64, 4  # times for each line


class Counts:
    """The whole numbers that this process sums up with other ranks, as small floats."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._looked: Counter[int] = Counter()

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if moved.kind not in ("all_reduce", "reduce") or self._models.in_backward:
            return
        if len(moved.tensors) != 1 or moved.tensors[0].dtype not in _SMALL:
            return
        tensor = moved.tensors[0].detach()
        if not 0 < tensor.numel() <= _MOST_ELEMENTS or not readable(tensor):
            return
        at = site(self._log)
        self._looked[at] += 1
        if self._looked[at] > _MOST:
            return
        values = tensor.flatten().double()
        if bool((values == values.round()).all()) and bool((values >= 0).all()):
            self._log.note(
                observed=COUNT,
                number=self._looked[at],
                ranks=list(moved.ranks),
                dtype=str(tensor.dtype).removeprefix("torch."),
                values=values.tolist(),
                at=at,
            )
