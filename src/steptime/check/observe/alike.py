"""Alike: activations that ranks sum up or gather, of which each should have a part of its own."""

from collections import Counter

import torch

from steptime.check.observe.contents import OF_BATCHES, hash_of, readable
from steptime.check.observe.functions import within_function
from steptime.check.observe.moved import Moved
from steptime.check.observe.tensors import is_constant
from steptime.record.events import Log
from steptime.record.places import site

ALIKE = "alike"
"""What is noted of activations that a rank brings to a sum or a gather of them."""

_LEAST_ELEMENTS = 64
_MOST, _MOST_CALLS = 4, 1000  # times for each line, and in all


class Alike:
    """The activations of the first forwards of this process that go between ranks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked: Counter[int] = Counter()
        self._calls = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if moved.kind not in ("all_reduce", "all_gather") or self._calls == _MOST_CALLS:
            return
        self._calls += 1
        brought = moved.brought if moved.reduction in ("", "sum") else []
        if len(brought) != 1 or not _is_activation(brought[0]):
            return
        at = site(self._log)
        self._looked[at] += 1
        if self._looked[at] <= _MOST and not is_constant(tensor := brought[0].detach()):
            self._log.note(
                observed=ALIKE,
                kind=moved.kind,
                ranks=list(moved.ranks),
                number=self._looked[at],
                hash=hash_of([tensor], OF_BATCHES),
                at=at,
            )


def _is_activation(tensor: torch.Tensor) -> bool:
    """Whether a gradient of it will be asked for, by autograd or by a function that it follows."""
    plain = type(tensor) is torch.Tensor and tensor.is_floating_point()
    if not plain or tensor.numel() < _LEAST_ELEMENTS or not readable(tensor):
        return False
    if tensor.requires_grad:
        return not tensor.is_leaf
    within = within_function()
    return within is not None and within.follows and not within.backward
