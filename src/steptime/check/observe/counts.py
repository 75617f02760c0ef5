"""Counts: numbers that are summed up in a type which has too few bits for their sum."""

from collections import Counter

import torch

from steptime.check.observe.contents import readable, samples_of
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site

COUNT = "count"
"""What is noted of numbers that are summed up in a type of few bits, whole or large ones."""

_FLOATS = (torch.bfloat16, torch.float16)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32)
_MOST_ELEMENTS, _MOST = 64, 4  # of floats, and times for each line
_MOST_HALF = torch.finfo(torch.float16).max
_MOST_COUNTED = 1 << 32  # what is no number becomes a large one


class Counts:
    """The whole numbers that this process sums up with other ranks, where few bits hold them.

    Floats are counts where they are few and whole, and of integers some tell of all. So they do of
    numbers in float16 that may have no sum there.
    """

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._looked: Counter[int] = Counter()

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if moved.kind not in ("all_reduce", "reduce") or self._models.in_backward:
            return
        if len(moved.tensors) != 1 or moved.reduction != "sum":
            return
        tensor = moved.tensors[0].detach()
        if not _may_count(tensor) or not readable(tensor):
            return
        at = site(self._log)
        self._looked[at] += 1
        if self._looked[at] > _MOST:
            return
        values = samples_of(tensor)
        whole = tensor.dtype in _INTEGERS or (_are_few(tensor) and all(map(_is_count, values)))
        large = (
            tensor.dtype is torch.float16 and max(map(abs, values)) * len(moved.ranks) > _MOST_HALF
        )
        if whole or large:
            self._log.note(
                observed=COUNT,
                number=self._looked[at],
                ranks=list(moved.ranks),
                whole=whole,
                dtype=str(tensor.dtype).removeprefix("torch."),
                values=values,
                at=at,
            )


def _is_count(value: float) -> bool:
    return value.is_integer() and 0 <= value < _MOST_COUNTED


def _may_count(tensor: torch.Tensor) -> bool:
    of_any_size = tensor.dtype in (*_INTEGERS, torch.float16)
    return tensor.numel() > 0 and (of_any_size or (_are_few(tensor) and tensor.dtype in _FLOATS))


def _are_few(tensor: torch.Tensor) -> bool:
    return tensor.numel() <= _MOST_ELEMENTS
