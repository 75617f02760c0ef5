"""Alike: activations and their gradients of which each rank should bring a part of its own."""

from collections import Counter

import torch

from steptime.check.observe.contained import caller
from steptime.check.observe.contents import OF_BATCHES, hash_of, readable
from steptime.check.observe.functions import within_function
from steptime.check.observe.moved import Moved
from steptime.check.observe.tensors import is_constant, is_followed
from steptime.record.events import Log
from steptime.record.places import site, way

ALIKE, SENT_BACK = "alike", "sent back"
"""What is noted of activations that a rank brings to a sum or a gather of them, or sends on within
a Function, and of what it brings to a sum in the backward of one.

``way``: how the script came to that line, for layers may all call one helper."""

_KINDS = ("all_reduce", "all_gather", "send")
_LEAST_ELEMENTS = 64
_MOST, _MOST_WAYS, _MOST_CALLS = 4, 64, 1000  # times for each way there, ways, and in all


class Alike:
    """The activations of the first forwards of this process that go between ranks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked: Counter[tuple[int, int]] = Counter()
        self._calls = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if moved.kind not in _KINDS or self._calls == _MOST_CALLS:
            return
        self._calls += 1
        brought = moved.brought if moved.reduction in ("", "sum") else []
        what = _what(brought[0], moved.kind) if len(brought) == 1 else ""
        if not what or (what == SENT_BACK and moved.kind != "all_reduce"):
            return
        at, came = site(self._log), way(caller())
        line = (at, came)
        if line not in self._looked and len(self._looked) == _MOST_WAYS:
            return
        self._looked[line] += 1
        if self._looked[line] <= _MOST and not is_constant(tensor := brought[0].detach()):
            self._log.note(
                observed=what,
                kind=moved.kind,
                ranks=list(moved.ranks),
                number=self._looked[line],
                hash=hash_of([tensor], OF_BATCHES),
                way=came,
                at=at,
            )


def _what(tensor: torch.Tensor, kind: str) -> str:
    """What a tensor is: a gradient of it will be asked for, or it is one; "": neither is known.

    Stages send activations, too, of which autograd follows none: a layer does so in a Function.
    """
    plain = type(tensor) is torch.Tensor and tensor.is_floating_point()
    if not plain or tensor.numel() < _LEAST_ELEMENTS or not readable(tensor):
        return ""
    if tensor.requires_grad and kind != "send":
        return ALIKE if is_followed(tensor) else ""
    within = within_function()
    if within is None or not within.follows:
        return ""
    return SENT_BACK if within.backward else ALIKE
