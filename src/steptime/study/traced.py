"""The answer of a trace that others wrote: the same record and timeline as a recorded script's."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.call_bytes import Traffic, member_bytes
from steptime.errors import UsageError
from steptime.record.read import Site
from steptime.record.traces.opening import Trace, open_trace
from steptime.record.traces.timeline import (
    UNMARKED,
    StepCall,
    calls_by_step,
    common_steps,
    trace_timeline,
)
from steptime.record.traces.trace import RankTrace
from steptime.runs.environment import VERSION, Environment
from steptime.runs.figures import StepFigures, measured_steps, sum_by
from steptime.runs.record import Place, RunRecord, Timing, Work
from steptime.runs.recorded import MOST_PLACES, RecordedCall, RecordedScript
from steptime.timeline import Phase, Timeline, phases_of_steps
from steptime.version import __version__

_BUSY = (Phase.COMPUTE, Phase.UPDATE)


def read_trace(paths: Sequence[Path], *, unpickle: bool = False) -> tuple[RunRecord, Timeline]:
    """The record and the timeline of a trace in some files or folders.

    Raises UsageError as ``open_trace`` does, and where its ranks have no step in common.
    """
    return traced(open_trace(paths, unpickle=unpickle))


def traced(trace: Trace) -> tuple[RunRecord, Timeline]:
    """The record and the timeline of a trace: steps are called after its files."""
    timeline = trace_timeline(trace, trace.name)
    of_ranks = common_steps(trace)
    calls = [calls_by_step(one, steps) for one, steps in zip(trace.ranks, of_ranks, strict=True)]
    steps = len(of_ranks[0])
    backends = dict.fromkeys(one.backend for one in trace.ranks if one.backend)
    begin = min(own[0].begin for own in of_ranks) / 1e9
    record = RunRecord(
        verb="record",
        work=Work(model=trace.format),
        place=Place(world_size=trace.world_size, backend=", ".join(backends) or None),
        timing=Timing(steps=steps, warmup=0),
        strategies={trace.name: _figures(trace, calls, timeline, steps)},
        script=RecordedScript(
            command=(),
            read_from=f"{trace.format} of {len(trace.ranks)} of {trace.world_size} ranks",
            untold=trace.untold,
            steps_by=trace.ranks[0].steps_by or UNMARKED,
            calls=_recorded_calls(trace, calls, steps),
        ),
        environment=Environment(
            format=VERSION,
            time=datetime.fromtimestamp(begin, UTC).isoformat(timespec="seconds"),
            host=", ".join(dict.fromkeys(filter(None, (one.host for one in trace.ranks)))),
            steptime=__version__,
        ),
    )
    return record, timeline


def _figures(
    trace: Trace, calls: Sequence[Sequence[StepCall]], timeline: Timeline, steps: int
) -> StepFigures:
    phases = phases_of_steps(timeline, trace.name)
    table = np.stack([phases[phases["rank"] == one.rank] for one in trace.ranks])  # (ranks, steps)
    if not table["duration"].sum() > 0:
        raise UsageError(f"{trace.name} has steps of no length: nothing can be said of their time")
    hosts = [one.host or "not told" for one in trace.ranks]
    traffic = [_traffic(one, own) for one, own in zip(trace.ranks, calls, strict=True)]
    sent, received = ([of[end] // steps for of in traffic] for end in (0, 1))
    return StepFigures(
        source="measured",
        summary=f"a {trace.format}",
        **measured_steps(table, [one.rank for one in trace.ranks], hosts),
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
    )


def _traffic(one: RankTrace, calls: Sequence[StepCall]) -> Traffic:
    """What the calls of a rank move in all steps, as their definitions say."""
    whole = Traffic(0, 0)
    for _, call in calls:
        members, kind = call.group.ranks, call.kind
        if kind in ("send", "recv"):
            moved = (call.nbytes, 0) if kind == "send" else (0, call.nbytes)
            whole = whole.plus(Traffic(*moved))
        elif kind != "barrier" and members:
            here = members.index(one.rank) if one.rank in members else 0
            root = max(0, call.peer)
            whole = whole.plus(member_bytes(kind, call.nbytes, here, len(members), root))
    return whole


def _recorded_calls(
    trace: Trace, calls: Sequence[Sequence[StepCall]], steps: int
) -> list[RecordedCall]:
    """The calls by kind and group; means over the steps and the ranks that made them."""
    rows: dict[tuple[str, str, int], dict[int, list[tuple[int, float, Site | None]]]] = {}
    for one, own in zip(trace.ranks, calls, strict=True):
        for (_, call), exposed in zip(own, _exposed(one, own), strict=True):
            of = rows.setdefault((call.kind, call.group.name, len(call.group.ranks)), {})
            of.setdefault(one.rank, []).append((call.nbytes, exposed, call.site))
    found = []
    for (kind, group, members), of_ranks in rows.items():
        made = [row for of_rank in of_ranks.values() for row in of_rank]
        times = len(of_ranks) * steps
        found.append(
            RecordedCall(
                op=kind,
                group=group,
                ranks=members,
                calls_per_step=len(made) / times,
                bytes_per_step=sum(nbytes for nbytes, _, _ in made) / times,
                exposed_s=sum(exposed for _, exposed, _ in made) / times,
                places=list(dict.fromkeys(str(site) for _, _, site in made if site))[:MOST_PLACES],
            )
        )
    return sorted(found, key=lambda call: (-call.exposed_s, -call.bytes_per_step))


def _exposed(one: RankTrace, calls: Sequence[StepCall]) -> list[float]:
    """Seconds of each call in which its rank neither computed nor updated.

    A moment counts for that call under way which ends first.
    """
    busy = sorted((span.begin, span.end) for span in one.spans if span.phase in _BUSY)
    edges, covered = _covered(busy)
    exposed = [0.0] * len(calls)
    done = 0
    for at in sorted(range(len(calls)), key=lambda at: calls[at].call.end):
        begin, end = max(done, calls[at].call.begin), calls[at].call.end
        if end > begin:
            hidden = np.interp([begin, end], edges, covered) if len(edges) else np.zeros(2)
            exposed[at] = max(0.0, (end - begin - float(hidden[1] - hidden[0])) / 1e9)
            done = end
    return exposed


def _covered(busy: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """The time that sorted intervals cover until each of their edges, in nanoseconds.

    Both of shape (edges,); between two edges it grows evenly.
    """
    whole = list(_merged(busy))
    edges = np.array([edge for one in whole for edge in one], np.float64)
    lengths = np.array([end - begin for begin, end in whole], np.float64)
    covered = np.repeat(np.concatenate([[0.0], np.cumsum(lengths)]), 2)[1:-1]
    return edges, covered


def _merged(busy: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sorted intervals, those that touch made one."""
    current: tuple[int, int] | None = None
    for begin, end in busy:
        if current is not None and begin <= current[1]:
            current = current[0], max(end, current[1])
            continue
        if current is not None:
            yield current
        current = begin, end
    if current is not None:
        yield current
