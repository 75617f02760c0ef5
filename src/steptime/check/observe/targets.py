"""Targets: over how many of them a rank's loss averages, where its gradients are averaged, too."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from steptime.check.observe.backwards import nodes_of, watched_backwards
from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import readable
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import all_of
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site

TARGETS, WEIGHED = "targets", "weighed"
"""What is noted of a loss that averages over targets, and once of ranks that tell their number."""

_TELL = ("all_reduce", "reduce", "all_gather")
_MOST = 8  # losses: counting waits for the device
_MOST_BACKWARDS = 50  # that are looked at: a script may have losses of another kind alone
_LAST = 16  # numbers that ranks have told of late
_NEAR = 200  # nodes of the graph, from the loss back
_MEAN = 1  # as C++ numbers reductions


class Targets:
    """The first backwards of this process that begin at losses which average over targets."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._ranks: Sequence[int] = ()
        self._counted: list[int] = []
        self._told: deque[float] = deque(maxlen=_LAST)
        self._weighed = False
        self._backwards = 0

    def given(self, _: Any, ranks: Sequence[int], *__: Any) -> None:
        """A model that ``ranks`` have replicas or shards of runs forward."""
        if torch.is_grad_enabled():
            self._ranks = ranks

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins: of a loss that averages autograd knows over how many targets."""
        self._backwards += 1
        if self._over or not dist.is_initialized() or dist.get_world_size() < 2:
            return
        losses = (node for node in nodes_of(roots, _NEAR) if _averages(node))
        if (loss := next(losses, None)) is not None and readable(loss._saved_total_weight):
            self._counted.append(int(loss._saved_total_weight))
            self._log.note(
                observed=TARGETS,
                number=len(self._counted),
                ranks=list(self._ranks),
                counted=self._counted[-1],
                at=site(self._log),
            )
            self._see_weighed()

    def issued(self, operation: Operation, group: Any, arguments: Sequence[Any], **_: Any) -> None:
        """A call is made: of a single number, which may be how many targets this rank has."""
        if self._weighed or self._over or operation.kind not in _TELL:
            return
        brought = list(tensors_in(arguments[operation.kind == "all_gather"]))
        one = group.size() > 1 and len(brought) == 1 and brought[0].numel() == 1
        if one and readable(brought[0]):
            self._told.append(float(brought[0]))
            self._see_weighed()

    @property
    def _over(self) -> bool:
        return len(self._counted) == _MOST or self._backwards > _MOST_BACKWARDS

    def _see_weighed(self) -> None:
        """Note once that ranks tell one another how many targets each has: who does weighs."""
        if not self._weighed and not set(self._told).isdisjoint(self._counted):
            self._weighed = True
            self._log.note(observed=WEIGHED)


def _averages(node: Any) -> bool:
    """Whether a node of autograd is that of a loss which averages over targets that weigh alike."""
    of_classes = node.name().startswith("NllLoss")
    return of_classes and node._saved_reduction == _MEAN and node._saved_weight is None


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("targets")
    targets = Targets(log)
    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, targets.issued)),
            watched_forwards(contained, targets.given),
            watched_backwards(contained, targets.begin),
        ]
    )


OBSERVER = Observer(_observe)
