"""From the traces of ranks to a Timeline: their steps side by side, all on one clock."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.errors import UsageError
from steptime.record.traces.opening import Trace
from steptime.record.traces.trace import Call, RankTrace, Step
from steptime.timeline import Timeline
from steptime.timeline.timeline import INTERVAL, MESSAGE, Phase
from steptime.timeline.waits import last_arrivals

_Row: TypeAlias = tuple[Any, ...]

UNMARKED = "nothing: the trace is one step"


class StepCall(NamedTuple):
    """A call of a rank, and the place of its step among those that all ranks have."""

    step: int
    call: Call


def common_steps(trace: Trace) -> list[list[Step]]:
    """The steps that all ranks have, rank by rank, in their order.

    Where no rank marks any, each rank's trace is one step. Raises UsageError where only some ranks
    do, or they have none in common.
    """
    marked = [one for one in trace.ranks if one.steps]
    if not marked:
        # What is of no length at the very end is within it, too.
        return [[Step(0, one.extent[0], one.extent[1] + 1)] for one in trace.ranks]
    common = set.intersection(*({step.number for step in one.steps} for one in trace.ranks))
    if not common:
        raise UsageError(
            f"{trace.name}: its ranks have no step in common: profile the same steps on every rank"
        )
    return [[step for step in one.steps if step.number in common] for one in trace.ranks]


def calls_by_step(one: RankTrace, steps: Sequence[Step]) -> list[StepCall]:
    """The calls of a rank that begin within its steps, which are in order."""
    begins = np.array([step.begin for step in steps], np.int64)
    at = np.searchsorted(begins, [call.begin for call in one.calls], side="right") - 1
    return [
        StepCall(place, call)
        for place, call in zip(at.tolist(), one.calls, strict=True)
        if place >= 0 and call.begin < steps[place].end
    ]


def trace_timeline(trace: Trace, name: str) -> Timeline:
    """All ranks on one clock, in seconds since the first step began; steps are called ``name``.

    Ranks are put on one clock by their wall clocks. Of calls that several ranks make, those meet
    that are the n-th of their step in one group, of one kind and so many bytes.
    """
    of_ranks = common_steps(trace)
    zero = min(steps[0].begin for steps in of_ranks)
    names: dict[str, int] = {}
    streams: dict[str, int] = {}
    rows: list[_Row] = []
    met: list[int] = []
    meetings: dict[_Row, int] = {}
    for one, steps in zip(trace.ranks, of_ranks, strict=True):
        for stream, label, phase, begin, end, step, nbytes, meeting in _rows(one, steps, name):
            at = streams.setdefault(stream, len(streams)), names.setdefault(label, len(names))
            seconds = (begin - zero) / 1e9, (end - zero) / 1e9
            rows.append((one.rank, *at, phase, step, *seconds, nbytes, 0.0))
            if meeting is not None:
                met.append(meetings.setdefault(meeting, len(meetings)))
    intervals = np.array(rows, INTERVAL)
    calls = np.flatnonzero(intervals["phase"] == Phase.COMMUNICATION)
    of_calls = intervals[calls]
    intervals["ready"][calls] = _ready(np.array(met, np.int64), of_calls["start"], of_calls["end"])
    return Timeline(
        source="measured",
        ranks=trace.world_size,
        names=tuple(names),
        streams=tuple(streams),
        intervals=intervals,
        messages=np.empty(0, MESSAGE),
    )


def _ready(met: Longs, begin: Floats, end: Floats) -> Floats:
    """When the last came to each call; 0, as where nothing is known, of one that nobody shares."""
    if not met.size:
        return np.zeros(0)
    counts = np.bincount(met)
    return np.asarray(np.where(counts[met] > 1, last_arrivals(met, begin, end), 0.0))


def _rows(
    one: RankTrace, steps: Sequence[Step], name: str
) -> Iterator[tuple[str, str, Phase, int, int, int, int, _Row | None]]:
    """The intervals of a rank that begin within its steps: all of INTERVAL but the rank."""
    for place, step in enumerate(steps):
        yield "step", name, Phase.STEP, step.begin, step.end, place, 0, None
    begins = np.array([step.begin for step in steps], np.int64)
    at = np.searchsorted(begins, [span.begin for span in one.spans], side="right") - 1
    for place, span in zip(at.tolist(), one.spans, strict=True):
        if place >= 0 and span.begin < steps[place].end:
            yield span.stream, span.name, span.phase, span.begin, span.end, place, 0, None
    counts: dict[_Row, int] = {}
    for place, call in calls_by_step(one, steps):
        of = place, *_parties(one.rank, call), call.nbytes
        counts[of] = counts.get(of, 0) + 1
        communicates = call.stream, call.kind, Phase.COMMUNICATION
        yield *communicates, call.begin, call.end, place, call.nbytes, (*of, counts[of])


def _parties(rank: int, call: Call) -> _Row:
    """Who takes part in a call: a group, or the two ends of a message, its sender first."""
    members = call.group.ranks
    if call.kind not in ("send", "recv"):
        return call.group.name, members, call.kind
    if not 0 <= call.peer < len(members):
        return rank, call.kind
    both = rank, members[call.peer]
    return "message", *(both if call.kind == "send" else both[::-1])
