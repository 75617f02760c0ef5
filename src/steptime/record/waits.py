"""Which calls a script waited for, from when to when."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.record.events import ASYNC, Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog

_RETURNS_ANOTHER = ("reduce_scatter", "all_to_all", "scatter", "gather")
"""The collectives whose result is not the tensor whose bytes count, so its address is unknown."""


@dataclass(frozen=True)
class Awaited:
    """A wait: ``begin`` and ``end`` in nanoseconds of the rank's clock, ``calls`` by their rows."""

    begin: int
    end: int
    calls: tuple[int, ...]


def awaited(log: ProcessLog) -> list[Awaited]:
    """All waits of a rank for its calls, in order of their begin.

    Most are seen, by call. Of a wait for a functional collective the tensor is known; DDP waits in
    C++ for all its buckets, once it has issued the last one of a backward, and for a broadcast of
    buffers at once. A call that nobody waits for is in none of them.
    """
    calls = log.calls
    found = list(_seen(calls))
    left = set(range(len(calls))) - {row for wait in found for row in wait.calls}
    for wait in (*_of_tensors(log, left), *_of_backward(log, left), *_of_buffers(calls, left)):
        left -= set(wait.calls)
        found.append(wait)
    return sorted(found, key=lambda wait: wait.begin)


def _seen(calls: NDArray[np.void]) -> Iterator[Awaited]:
    """Waits of Python for a call, and calls that return when they are done."""
    for row, call in enumerate(calls):
        blocks = not call["flags"] & ASYNC
        if call["wait_end"]:
            begin = call["issued"] if blocks else call["wait_begin"]
            yield Awaited(int(begin), int(call["wait_end"]), (row,))
        elif blocks or OPERATIONS[call["operation"]].name == "monitored_barrier_":
            end = max(call["returned"], call["ended"])
            yield Awaited(int(call["issued"]), int(end), (row,))


def _of_tensors(log: ProcessLog, left: set[int]) -> Iterator[Awaited]:
    """Waits for the result of a functional collective, by where it lies in memory."""
    calls = log.calls
    for event in log.events[(log.events["kind"] == Kind.WAIT) & (log.events["ended"] > 0)]:
        before = [row for row in sorted(left) if calls[row]["issued"] < event["issued"]]
        same = [row for row in before if calls[row]["address"] == event["address"] != 0]
        others = [
            row for row in before if OPERATIONS[calls[row]["operation"]].kind in _RETURNS_ANOTHER
        ]
        row = same[-1] if same else others[0] if others else -1
        if row >= 0:
            left.discard(row)
            yield Awaited(int(event["issued"]), int(event["ended"]), (row,))


def _of_backward(log: ProcessLog, left: set[int]) -> Iterator[Awaited]:
    """Waits of DDP's reducer at the end of each backward, for all that it has issued."""
    calls = log.calls
    rows = np.array(sorted(left), np.int64)
    for backward in log.events[log.events["kind"] == Kind.BACKWARD]:
        issued = calls["issued"][rows]
        own = rows[(issued >= backward["issued"]) & (issued < backward["ended"])]
        if own.size:
            begin = int(calls["returned"][own].max())
            end = min(int(calls["ended"][own].max()), int(backward["ended"]))
            yield Awaited(begin, max(begin, end), tuple(own.tolist()))


def _of_buffers(calls: NDArray[np.void], left: set[int]) -> Iterator[Awaited]:
    """Waits of DDP for the broadcast of its buffers, as it begins a forward."""
    for row in sorted(left):
        call = calls[row]
        if OPERATIONS[call["operation"]].kind == "broadcast":
            begin, end = int(call["returned"]), int(call["ended"])
            yield Awaited(begin, max(begin, end), (row,))
