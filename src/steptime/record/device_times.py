"""A recording by the clock of its GPU: what was written down, when the GPU came to it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints
from steptime.files import bounded_bytes
from steptime.record.events import ASYNC, MARK, MOST_EVENTS, TIMES, Kind, Time

_MOST_MARKS = 4 * MOST_EVENTS
_OF_STEPS = (Kind.BACKWARD, Kind.OPTIMIZER, Kind.STEP)


def read_marks(file: Path) -> NDArray[np.void]:
    """The marks of a process, of dtype MARK; none where it used no GPU."""
    if not file.exists():
        return np.empty(0, MARK)
    content = bounded_bytes(file, "a GPU's marks", _MOST_MARKS * MARK.itemsize)
    return np.frombuffer(content[: len(content) // MARK.itemsize * MARK.itemsize], MARK)


def device_times(events: NDArray[np.void], marks: NDArray[np.void]) -> NDArray[np.void]:
    """``events``, which have their numbers, with times of the GPU in place of the script's.

    What has a mark on the stream on which the script computes is when the GPU passed that; what
    has none is put between its neighbours that have one. A call on another stream begins where it
    was issued in the script's own order, and ends where its stream was when it came back: nothing
    says that the script waits for it there. What DDP waits for in C++ ends no later than the
    backward that issued it.
    """
    rows, marks = _rows_of(events, marks)
    if not len(marks):
        return events
    stream = _script_stream(events, rows, marks)
    times = marks["time"].astype(int)
    script = np.stack([events[name] for name in TIMES], axis=1).astype(np.int64)
    told = script[rows, times] > 0
    here = told & (marks["stream"] == stream)
    if not here.any():
        return events
    gpu = _between(script, script[rows[here], times[here]], marks["at"][here])
    gpu[rows[here], times[here]] = marks["at"][here]
    found = events.copy()
    _settle(found, gpu, _marked(events, rows[here], times[here]))
    _elsewhere(found, rows[~here], times[~here], marks["at"][~here])
    _by_reducer(found)
    return found


def _rows_of(events: NDArray[np.void], marks: NDArray[np.void]) -> tuple[Ints, NDArray[np.void]]:
    """The row of each mark's event, and the marks of events that are there."""
    order = np.argsort(events["number"], kind="stable")
    numbers = events["number"][order]
    at = np.searchsorted(numbers, marks["event"])
    at[at == len(numbers)] = 0
    known = (numbers[at] == marks["event"]) if len(numbers) else np.zeros(len(marks), bool)
    return order[at[known]], marks[known]


def _script_stream(events: NDArray[np.void], rows: Ints, marks: NDArray[np.void]) -> int:
    """The stream on which the script computes: that of its steps, else that of most marks."""
    of_steps = np.isin(events["kind"][rows], [int(kind) for kind in _OF_STEPS])
    streams = marks["stream"][of_steps if of_steps.any() else slice(None)]
    values, counts = np.unique(streams, return_counts=True)
    return int(values[np.argmax(counts)])


def _between(
    script: NDArray[np.int64], known: NDArray[np.int64], at: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The GPU's times of all the script's, given those of some; 0 stays 0."""
    order = np.argsort(known, kind="stable")
    known, at = known[order], np.maximum.accumulate(at[order])
    gpu = np.interp(script, known, at - known[0]).astype(np.int64) + known[0]
    gpu = np.where(script < known[0], script + (at[0] - known[0]), gpu)
    gpu = np.where(script > known[-1], np.maximum(script, at[-1]), gpu)
    return np.where(script > 0, gpu, 0)


def _marked(events: NDArray[np.void], rows: Ints, times: Ints) -> NDArray[np.bool_]:
    marked = np.zeros((len(events), len(TIMES)), bool)
    marked[rows, times] = True
    return marked


def _settle(events: NDArray[np.void], gpu: NDArray[np.int64], marked: NDArray[np.bool_]) -> None:
    """Put the GPU's times in; who waits for a call has its end when the stream goes on."""
    waited = marked[:, Time.WAIT_END]
    gpu[waited, Time.ENDED] = gpu[waited, Time.WAIT_END]
    alone = waited & (events["kind"] == Kind.WAIT)
    gpu[alone, Time.ISSUED] = gpu[alone, Time.WAIT_BEGIN]
    queued = marked[:, Time.ISSUED] & (events["kind"] == Kind.CALL) & (events["flags"] & ASYNC > 0)
    gpu[queued, Time.RETURNED] = gpu[queued, Time.ISSUED]
    for number, name in enumerate(TIMES):
        events[name] = gpu[:, number]


def _elsewhere(events: NDArray[np.void], rows: Ints, times: Ints, at: Ints) -> None:
    """Calls on other streams end by these, and block nobody."""
    ends = np.isin(times, (Time.RETURNED, Time.WAIT_END)) & (events["kind"][rows] == Kind.CALL)
    for row, when in zip(rows[ends].tolist(), at[ends].tolist(), strict=True):
        events["ended"][row] = max(when, int(events["issued"][row]))
        events["returned"][row] = events["issued"][row]
        events["wait_begin"][row] = events["wait_end"][row] = 0
        events["flags"][row] |= ASYNC


def _by_reducer(events: NDArray[np.void]) -> None:
    """Calls without an end that a backward issued end with it."""
    open_ = (events["kind"] == Kind.CALL) & (events["ended"] == 0)
    for backward in events[events["kind"] == Kind.BACKWARD]:
        issued = events["issued"]
        within = open_ & (issued >= backward["issued"]) & (issued < backward["ended"])
        events["ended"][within] = backward["ended"]
