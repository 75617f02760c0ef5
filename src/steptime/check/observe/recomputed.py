"""Recomputed: the calls of a checkpoint's forward, and of the same once more in the backward."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch.utils import checkpoint as checkpoints

from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.observer import Observer
from steptime.check.observe.reduced import is_of_shards
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site
from steptime.world import compat

RECOMPUTED = "recomputed"
"""What is noted of a call that a recomputation makes among other ranks than the forward did."""

_MOST = 64
"""So many checkpoints are looked at."""

_Made = tuple[str, tuple[int, ...]]
"""A call: its kind, and the ranks of its group."""


class Recomputed:
    """The calls that functions make under ``torch.utils.checkpoint``, each time they run."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked = 0
        self._told = False
        self._running: list[tuple[Sequence[_Made], list[_Made]]] = []
        """Of each that runs now, what its forward has called, none in that, and what it calls."""

    def issued(self, operation: Operation, group: Any, arguments: Sequence[Any], **_: Any) -> None:
        """A call is made."""
        del arguments
        # FSDP gathers parameters again where it has let them go, and others that come before.
        if not self._running or is_of_shards():
            return
        made = operation.kind, compat.ranks_of(group)
        expected, calls = self._running[-1]
        number = len(calls)
        calls.append(made)
        if number < len(expected) and not self._told:
            kind, ranks = expected[number]
            if kind == made[0] and ranks != made[1]:
                self._told = True
                self._log.note(
                    observed=RECOMPUTED,
                    kind=kind,
                    ranks=list(ranks),
                    instead=list(made[1]),
                    at=site(self._log),
                )

    def following(self, function: Function) -> Function:
        """A function that is run once in the forward, and again in the backward."""
        if self._looked == _MOST:
            return function
        self._looked += 1
        made: list[_Made] = []

        @wraps(function, updated=())
        def run(*arguments: Any, **options: Any) -> Any:
            calls: list[_Made] = []
            self._running.append((list(made), calls))
            try:
                return function(*arguments, **options)
            finally:
                self._running.pop()
                made[:] = made or calls

        return run


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    recomputed = Recomputed(log)
    contained = Contained("recomputation")
    following = contained.of(recomputed.following)

    def watched(checkpoint: Function) -> Function:
        def checkpointed(function: Function, *arguments: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                function = following(function) or function
            return checkpoint(function, *arguments, **options)

        return checkpointed

    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, recomputed.issued)),
            replaced([checkpoints], "checkpoint", watched),
        ]
    )


OBSERVER = Observer(_observe)
