"""What a page is about: runs, and of each the strategies whose steps it took or simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steptime.errors import UsageError
from steptime.report.about import world_size
from steptime.timeline import Timeline, phases_of_steps

Record = Mapping[str, Any]
_PARTS = ("compute_s", "exposed_comm_s", "update_s", "other_s")


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it is read back: its run.json and its timeline, with the folder's ``name``.

    ``timeline`` is None where that cannot be read, and ``missing`` then says why.
    """

    name: str
    record: Record
    timeline: Timeline | None
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """One strategy of a run.

    ``name`` is unique on the page, ``step`` what its steps are called in the timeline, and
    ``entry`` what run.json holds of it.
    """

    name: str
    step: str
    entry: Record
    run: Run

    @property
    def timeline(self) -> Timeline | None:
        """The whole run that it belongs to."""
        return self.run.timeline

    @property
    def first_step(self) -> int:
        """The first step that counts: what is simulated is in its steady state at the last."""
        record = self.run.record
        if self.entry["source"] == "simulated":
            return int(record.get("simulated_steps", 1)) - 1
        return int(record.get("warmup", 0)) if "strategies" in record else 0


def subjects(runs: Sequence[Run]) -> list[Subject]:
    """The strategies of all runs; of several runs each is named after its run too.

    Raises UsageError for a run that has no steps.
    """
    found = []
    for run in runs:
        steps = _strategies(run)
        for name, entry in steps.items():
            shown = name
            if len(runs) > 1:
                shown = run.name if len(steps) == 1 else f"{run.name}: {name}"
            found.append(Subject(shown, _called(run.record, name), entry, run))
    return found


def _called(record: Record, strategy: str) -> str:
    """What the steps of a strategy are called in the timeline; those of a proxy as its program."""
    return strategy if record.get("strategies") else str(record.get("program", strategy))


def _strategies(run: Run) -> Mapping[str, Record]:
    record = run.record
    if record.get("strategies"):
        return dict(record["strategies"])
    if record.get("phases") and record.get("step_time_s"):
        return {str(record["model"]): _of_proxy(run)}
    what = "a plan that nobody ran" if record.get("dry_run") else f"a run of {record['verb']}"
    raise UsageError(
        f"{run.name} is {what}, which took no step: a report is of runs of compare, train, "
        "simulate and proxy"
    )


def _of_proxy(run: Run) -> Record:
    """A proxy's figures as those of a strategy: its phases, the axes that it waits for as one."""
    record = run.record
    ranks = _ranks(run, str(record.get("program", record["model"])))
    sent, received = (_moved(record, way) for way in ("sent", "received"))
    wire_sent, wire_received = (_wired(record, way) for way in ("sent", "received"))
    return {
        "source": record["source"],
        "summary": str(record.get("compute", {}).get("times", "")),
        **parts_of(record),
        "bytes_sent_per_rank": sent,
        "bytes_received_per_rank": received,
        "wire_bytes_sent_per_rank": wire_sent,
        "wire_bytes_received_per_rank": wire_received,
        "tokens_per_s": record.get("tokens_per_s"),
        "loss": [],
        "ranks": ranks,
        **{
            field: record[field]
            for field in ("calls", "pairs", "placement", "model_memory", "link_use")
            if record.get(field)
        },
    }


def parts_of(record: Record) -> dict[str, Any]:
    """The step of a proxy and its four parts, of its phases: the axes that it waits for are one.

    The phases are means of all steps and the step is the median: they divide it as they do them.
    """
    step = record["step_time_s"]
    if not isinstance(step, Mapping):
        step = dict.fromkeys(("median", "p10", "p90"), float(step))
    mean = {what: float(of["mean_s"]) for what, of in record["phases"].items()}
    whole = sum(mean.values()) or 1.0
    share = {what: step["median"] * time / whole for what, time in mean.items()}
    apart = ("compute", "update", "other")
    return {
        "step_time_s": step,
        "compute_s": share.get("compute", 0.0),
        "exposed_comm_s": sum(time for what, time in share.items() if what not in apart),
        "update_s": share.get("update", 0.0),
        "other_s": share.get("other", 0.0),
    }


def _moved(record: Record, way: str) -> list[int]:
    """The bytes that a step makes each rank send, or receive."""
    found = []
    for rank in record["per_rank"]:
        simulated = rank.get("simulated_bytes")
        of = [simulated] if simulated else rank["predicted_bytes"].values()
        found.append(round(sum(one[way] for one in of)))
    return found


def _wired(record: Record, way: str) -> list[int] | None:
    wires = [rank["wire_bytes"][way] for rank in record["per_rank"] if "wire_bytes" in rank]
    return wires if len(wires) == len(record["per_rank"]) else None


def _ranks(run: Run, step: str) -> list[dict[str, Any]]:
    """The parts of the step of each rank that the timeline holds, and the others by number."""
    rows: dict[int, dict[str, Any]] = {}
    if run.timeline is not None and len(run.timeline.steps_named(step)):
        phases = phases_of_steps(run.timeline, step)
        for rank in np.unique(phases["rank"]).tolist():
            own = phases[phases["rank"] == rank]
            means = [float(own[f.removesuffix("_s")].mean()) for f in _PARTS]
            rows[rank] = {
                "step_time_s": float(own["duration"].mean()),
                **dict(zip(_PARTS, means, strict=True)),
            }
    measured = run.record["source"] == "measured"
    host = str(run.record.get("environment", {}).get("host", "")) if measured else ""
    hosts = _hosts(run.record)
    return [
        {"rank": rank, "host": hosts.get(rank, host), **rows.get(rank, {})}
        for rank in range(world_size(run.record))
    ]


def _hosts(record: Record) -> dict[int, str]:
    return {rank["rank"]: str(rank["host"]) for rank in record["per_rank"] if "host" in rank}
