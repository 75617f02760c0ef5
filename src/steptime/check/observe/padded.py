"""Padded: what ranks count of a dataset of which a sampler gives some samples twice.

A DistributedSampler gives each rank as many samples as every other, and where their number does not
divide the dataset's it begins it anew (torch/utils/data/distributed.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DistributedSampler

from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import readable
from steptime.check.observe.moved import Moved
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site

PADDED = "padded"
"""What is noted of numbers that ranks sum up after a pass that has given some samples twice."""

_SUMMING = ("all_reduce", "reduce", "all_gather")
"""By which kinds of calls ranks sum up what they have counted; some gather it first."""
_MOST_ELEMENTS, _MOST = 64, 8  # times for each pass
_MOST_PASSES = 20


class Padded:
    """The latest pass of this process through a dataset by no optimizer's steps, if it is padded.

    Who trains on a sample twice has trained on so many; who evaluates them has not as many.
    """

    def __init__(self, log: Log, calls: Calls) -> None:
        self._log, self._of_thread = log, calls.of_thread
        self._passes = self._summed = 0
        self._latest: tuple[int, int, int] | None = None
        """Samples of the dataset and of the pass, and where it was asked for."""

    def began(self, sampler: Any) -> None:
        """A sampler begins to go through its data."""
        size, given = len(sampler.dataset), sampler.total_size
        padded = sampler.num_replicas > 1 and given > size and self._passes < _MOST_PASSES
        self._latest = (size, given, site(self._log)) if padded else None
        self._passes, self._summed = self._passes + padded, 0

    def stepping(self, *_: Any) -> None:
        """An optimizer is about to step: the pass is one of training."""
        self._latest = None

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """A call is made: of few numbers that it sums up some may be how many there were."""
        del asynchronous
        if self._latest is None or operation.kind not in _SUMMING:
            return
        moved = Moved(operation, group, arguments, peer, self._of_thread.reduction)
        brought = moved.brought if moved.reduction in ("", "sum") else []
        if len(brought) != 1 or self._summed == _MOST:
            return
        tensor = brought[0].detach()
        if not 0 < tensor.numel() <= _MOST_ELEMENTS or tensor.is_complex() or not readable(tensor):
            return
        self._summed += 1
        size, given, sampled_at = self._latest
        self._log.note(
            observed=PADDED,
            of=[self._passes, self._summed],
            ranks=list(moved.ranks),
            size=size,
            given=given,
            values=tensor.flatten().double().nan_to_num().tolist(),
            sampled_at=sampled_at,
            at=site(self._log),
        )


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    padded = Padded(log, calls)
    contained = Contained("padded")
    return all_of(
        [
            before([DistributedSampler], "__iter__", contained.of(padded.began)),
            register_optimizer_step_pre_hook(contained.of(padded.stepping)).remove,
            watched_calls(calls, ContainedWatcher(contained, padded.issued)),
        ]
    )


OBSERVER = Observer(_observe)
