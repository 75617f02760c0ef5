"""From what the ranks wrote down to a Timeline: the steps, and what each rank did in them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from steptime.arrays import Ints
from steptime.record.bounds import job_bounds
from steptime.record.clocks import host_clocks
from steptime.record.events import ASYNC, Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, first_world
from steptime.timeline import Timeline
from steptime.timeline.timeline import INTERVAL, MESSAGE, Phase
from steptime.timeline.waits import last_arrivals

MAIN = "script"
"""The stream of what the script itself does."""

STEP = "step"

_PARTS = {
    Kind.BACKWARD: ("backward", Phase.COMPUTE),
    Kind.OPTIMIZER: ("optimizer", Phase.UPDATE),
    Kind.DATA: ("data loading", Phase.OTHER),
}


_Meeting: TypeAlias = tuple[Any, ...]
"""What the parts of one call, on all its ranks, have in common."""


def recorded_timeline(logs: Sequence[ProcessLog], name: str) -> Timeline:
    """All ranks on one clock, in seconds since the first event; steps are called ``name``.

    The ranks of one host share a clock; those of others are put on it by what they called together
    (``clocks``). A step that not all ranks ended is left out.
    """
    clocks = host_clocks(logs)
    ahead = {clock.host: round(1e9 * clock.offset_s) for clock in clocks}
    begins = [log.events["issued"][0] + _to_common(log, ahead) for log in logs]
    zero = min(begins)
    bounds = job_bounds(logs)
    steps = min(len(one) for one in bounds) - 1
    names: dict[str, int] = {}
    streams: dict[str, int] = {}
    meetings: dict[_Meeting, int] = {}
    met: list[int] = []
    of_ranks = []
    for log, of_rank in zip(logs, bounds, strict=True):
        rows = _rows(log, of_rank[: steps + 1], name, names, streams)
        of_log = []
        for meeting, row in rows:
            of_log.append(row)
            if meeting is not None:
                met.append(meetings.setdefault(meeting, len(meetings)))
        intervals = np.array(of_log, INTERVAL)
        shift = float(_to_common(log, ahead) - zero)
        for field in ("start", "end"):
            intervals[field] = (intervals[field] + shift) / 1e9
        of_ranks.append(intervals)
    intervals = np.concatenate(of_ranks)
    calls = np.flatnonzero(intervals["phase"] == Phase.COMMUNICATION)
    begin, end = intervals["start"][calls], intervals["end"][calls]
    intervals["ready"][calls] = last_arrivals(np.array(met, np.int64), begin, end)
    return Timeline(
        source="measured",
        ranks=first_world(logs),
        names=tuple(names),
        streams=tuple(streams),
        intervals=intervals,
        messages=np.empty(0, MESSAGE),
        clocks=clocks,
    )


def _to_common(log: ProcessLog, ahead: Mapping[str, int]) -> int:
    """What makes a mark of the rank's own clock one of the clock of all, in nanoseconds.

    ``ahead``: by how much the wall clocks of hosts are.
    """
    return log.wall_ns - log.clock_ns - ahead.get(log.host, 0)


def _rows(
    log: ProcessLog, bounds: Ints, name: str, names: dict[str, int], streams: dict[str, int]
) -> Iterator[tuple[_Meeting | None, tuple[Any, ...]]]:
    """The intervals of a rank within its steps, as rows of INTERVAL in nanoseconds of its clock.

    Each with the meeting that it is this rank's part of, if it is a call.
    """

    def row(
        stream: str,
        label: str,
        phase: Phase,
        begin: int,
        end: int,
        nbytes: int = 0,
        meeting: _Meeting | None = None,
    ) -> Iterator[tuple[_Meeting | None, tuple[Any, ...]]]:
        step = int(np.searchsorted(bounds, begin, side="right")) - 1
        if 0 <= step < len(bounds) - 1:
            at = streams.setdefault(stream, len(streams)), names.setdefault(label, len(names))
            yield meeting, (log.rank, *at, phase, step, begin, end, nbytes, 0.0)

    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield from row("step", name, Phase.STEP, begin, end)
    for label, phase, begin, end in parts(log, bounds):
        yield from row(MAIN, label, phase, begin, end)
    for begin, end in waits(log):
        yield from row("waiting", "wait", Phase.WAIT, begin, end)
    for operator in log.operators:
        # They are part of what the script's own stream has, and count there.
        stream = "kernels" if operator.on_device else "operators"
        yield from row(stream, operator.name, Phase.OTHER, operator.begin_ns, operator.end_ns)
    last = log.last
    for call, meeting in zip(log.calls, _meetings(log), strict=True):
        kind, group = OPERATIONS[call["operation"]].kind, log.groups[int(call["group"])].name
        begin, end, nbytes = int(call["issued"]), int(call["ended"]) or last, int(call["bytes"])
        yield from row(group, kind, Phase.COMMUNICATION, begin, end, nbytes, meeting)


def _meetings(log: ProcessLog) -> Iterator[_Meeting]:
    """Which meeting of ranks each call of a rank is its part of.

    The n-th collective that a rank calls in a group is that of every other rank of the group, and
    its n-th message to a peer there is the n-th that this one receives of it.
    """
    counts: dict[_Meeting, int] = {}
    for call in log.calls:
        kind, group = OPERATIONS[call["operation"]].kind, log.groups[int(call["group"])]
        peer = int(call["peer"])
        ends: tuple[int, ...] = ()
        if kind in ("send", "recv") and 0 <= peer < len(group.ranks):
            both = (log.rank, group.ranks[peer])
            ends = both if kind == "send" else both[::-1]
        of: _Meeting = (group.name, group.ranks, ends)
        counts[of] = counts.get(of, 0) + 1
        yield *of, counts[of]


def parts(log: ProcessLog, bounds: Ints) -> Iterator[tuple[str, Phase, int, int]]:
    """What the script did, one after the other, from the first bound to the last.

    What is none of the parts that PyTorch tells of is forward where a backward follows, else the
    script's own.
    """
    events = log.events[np.isin(log.events["kind"], [int(kind) for kind in _PARTS])]
    spans = [
        (int(event["issued"]), int(event["ended"]), Kind(int(event["kind"])))
        for event in events
        if event["ended"] > bounds[0] and event["issued"] < bounds[-1]
    ]
    marks = [(int(bound), int(bound), None) for bound in bounds]
    done = int(bounds[0])
    for begin, end, kind in sorted([*spans, *marks], key=lambda span: span[:2]):
        if begin > done:
            yield "forward" if kind is Kind.BACKWARD else "other code", Phase.COMPUTE, done, begin
        if kind is not None and end > done:
            yield *_PARTS[kind], max(begin, done), end
        done = max(done, end)


def waits(log: ProcessLog) -> Iterator[tuple[int, int]]:
    """From when to when a rank did nothing but wait, in nanoseconds of its clock.

    DDP waits in C++ at the end of its backward, when its last bucket is on the way, for all of
    them: that is told from when the calls were issued and done.
    """
    calls = log.calls
    waited = calls[calls["wait_end"] > 0]
    at_once = (waited["flags"] & ASYNC) == 0
    begins = np.where(at_once, waited["issued"], waited["wait_begin"])
    yield from zip(begins.tolist(), waited["wait_end"].tolist(), strict=True)
    alone = log.events[(log.events["kind"] == Kind.WAIT) & (log.events["ended"] > 0)]
    yield from zip(alone["issued"].tolist(), alone["ended"].tolist(), strict=True)
    for backward in log.events[log.events["kind"] == Kind.BACKWARD]:
        within = (calls["issued"] >= backward["issued"]) & (calls["issued"] < backward["ended"])
        by_reducer = calls[within & (calls["wait_end"] == 0) & (calls["ended"] > 0)]
        if len(by_reducer):
            end = min(int(by_reducer["ended"].max()), int(backward["ended"]))
            begin = int(by_reducer["returned"].max())
            if end > begin:
                yield begin, end
