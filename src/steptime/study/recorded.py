"""The answer of a recording: where the steps of a script went, call by call and place by place."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.collectives.call_bytes import Traffic, member_bytes
from steptime.errors import UsageError
from steptime.record.bounds import job_bounds, optimizer_steps
from steptime.record.events import Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, first_world, read_logs
from steptime.record.timeline import recorded_timeline, waits
from steptime.runs.environment import here
from steptime.runs.figures import StepFigures, measured_steps, sum_by
from steptime.runs.record import Place, RunRecord, Timing, Work
from steptime.runs.recorded import MOST_PLACES, RecordedCall, RecordedScript
from steptime.timeline import Timeline, phases_of_steps


def recorded(run: Path) -> tuple[RunRecord, Timeline]:
    """What the processes of a recorded job wrote into its folder, as record and timeline.

    Raises UsageError where they wrote nothing.
    """
    logs = read_logs(run)
    name = script_name(logs[0].command)
    timeline = recorded_timeline(logs, name)
    bounds = job_bounds(logs)
    steps = min(len(one) for one in bounds) - 1
    bounds = [one[: steps + 1] for one in bounds]
    script = RecordedScript(
        command=logs[0].command,
        steps_by=_steps_by(logs),
        by_gpu=any(len(log.marks) for log in logs),
        calls=_calls(logs, bounds),
    )
    record = RunRecord(
        verb="record",
        run=str(run),
        work=Work(model=name),
        place=Place(
            world_size=first_world(logs),
            threads=logs[0].threads,
            backend=next((group.backend for group in logs[0].groups.values()), None),
        ),
        timing=Timing(steps=steps, warmup=0),
        strategies={name: _figures(logs, bounds, timeline, name)},
        script=script,
        environment=here(own=len(logs)),
    )
    return record, timeline


def script_name(command: Sequence[str]) -> str:
    """What the steps of a script are called."""
    return Path(command[0]).stem or "script"


def _steps_by(logs: Sequence[ProcessLog]) -> str:
    if any(Kind.STEP in log.events["kind"] for log in logs):
        return "steptime.step"
    several = any(len(optimizer_steps(log)) > 1 for log in logs)
    return "the optimizer's step" if several else "nothing: the run is one step"


def _figures(
    logs: Sequence[ProcessLog], bounds: Sequence[Ints], timeline: Timeline, name: str
) -> StepFigures:
    phases = phases_of_steps(timeline, name)
    table = np.stack([phases[phases["rank"] == log.rank] for log in logs])  # (ranks, steps)
    if not table.size:
        raise UsageError(f"{name} ended no step on every rank: nothing can be said of its time")
    traffic = [_traffic(log, of_rank) for log, of_rank in zip(logs, bounds, strict=True)]
    hosts = [log.host for log in logs]
    sent, received = [one.sent for one in traffic], [one.received for one in traffic]
    return StepFigures(
        source="measured",
        summary="a script as it is",
        **measured_steps(table, [log.rank for log in logs], hosts),
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
    )


def _traffic(log: ProcessLog, bounds: Ints) -> Traffic:
    """What the calls of a rank move in a step, as their definitions say."""
    whole = Traffic(0, 0)
    calls = log.calls
    for call in calls[(calls["issued"] >= bounds[0]) & (calls["issued"] < bounds[-1])]:
        kind, nbytes = OPERATIONS[call["operation"]].kind, int(call["bytes"])
        members = log.groups[int(call["group"])].ranks
        if kind in ("send", "recv"):
            whole = whole.plus(Traffic(nbytes, 0) if kind == "send" else Traffic(0, nbytes))
        elif kind != "barrier" and log.rank in members:
            here, root = members.index(log.rank), max(0, int(call["peer"]))
            whole = whole.plus(member_bytes(kind, nbytes, here, len(members), root))
    steps = max(1, len(bounds) - 1)
    return Traffic(whole.sent // steps, whole.received // steps)


def _calls(logs: Sequence[ProcessLog], bounds: Sequence[Ints]) -> list[RecordedCall]:
    rows: dict[tuple[str, str], list[_Row]] = {}
    for log, of_rank in zip(logs, bounds, strict=True):
        for row in _rows(log, of_rank):
            rows.setdefault((row.kind, row.group), []).append(row)
    found = [_call(of_kind, max(1, len(bounds[0]) - 1)) for of_kind in rows.values()]
    return sorted(found, key=lambda call: (-call.exposed_s, -call.bytes_per_step))


class _Row:
    """The calls of one rank of one kind, in one group, at one place."""

    def __init__(self, log: ProcessLog, calls: np.ndarray, exposed: Floats) -> None:
        first = calls[0]
        group = log.groups[int(first["group"])]
        site = log.sites.get(int(first["site"]))
        self.kind = OPERATIONS[first["operation"]].kind
        self.group, self.members, self.rank = group.name, len(group.ranks), log.rank
        self.place = str(site) if site else ""
        self.calls, self.bytes = len(calls), int(calls["bytes"].sum())
        self.exposed_s = float(exposed.sum())


def _rows(log: ProcessLog, bounds: Ints) -> Iterator[_Row]:
    calls = log.calls
    calls = calls[(calls["issued"] >= bounds[0]) & (calls["issued"] < bounds[-1])]
    if not len(calls):
        return
    exposed = _exposed(log, calls)
    keys = calls[["operation", "group", "site"]]
    for key in np.unique(keys):
        of_key = keys == key
        yield _Row(log, calls[of_key], exposed[of_key])


def _exposed(log: ProcessLog, calls: np.ndarray) -> Floats:
    """Seconds of each call in which its rank waited, shape (calls,).

    A moment of waiting counts for that call under way which ends first.
    """
    waiting = np.array(sorted(waits(log)), np.int64).reshape(-1, 2)
    exposed, done = np.zeros(len(calls)), 0
    for at in np.argsort(calls["ended"], kind="stable"):
        begin, end = max(done, calls["issued"][at]), calls["ended"][at]
        overlap = np.minimum(waiting[:, 1], end) - np.maximum(waiting[:, 0], begin)
        exposed[at] = overlap.clip(0).sum() / 1e9
        done = max(done, end)
    return exposed


def _call(rows: Sequence[_Row], steps: int) -> RecordedCall:
    ranks = len({row.rank for row in rows})
    places: dict[str, float] = {}
    for row in rows:
        places[row.place] = places.get(row.place, 0.0) + row.exposed_s
    longest = sorted(filter(None, places), key=lambda place: -places[place])
    return RecordedCall(
        op=rows[0].kind,
        group=rows[0].group,
        ranks=rows[0].members,
        calls_per_step=sum(row.calls for row in rows) / ranks / steps,
        bytes_per_step=sum(row.bytes for row in rows) / ranks / steps,
        exposed_s=sum(row.exposed_s for row in rows) / ranks / steps,
        places=longest[:MOST_PLACES],
    )
