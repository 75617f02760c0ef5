"""The step of a proxy as the figures of a strategy: the axes that it waits for are one part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steptime.timeline import Timeline, phases_of_steps

if TYPE_CHECKING:
    from steptime.runs.record import RunRecord

NAN = float("nan")
_APART = ("compute", "update", "other")
_PARTS = ("compute_s", "exposed_comm_s", "update_s", "other_s")


def proxy_parts(record: Mapping[str, Any], of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """``strategies`` as run.json has them, of a proxy's own fields.

    ``of``: the record that ``record`` was simulated beside, which says what ran. Of each rank it
    says how long its steps took; how they divide only the timeline tells, as ``with_ranks`` does.
    """
    whole = {**(of or {}), **record}
    step = record["step_time_s"]
    if not isinstance(step, Mapping):
        step = dict.fromkeys(("median", "p10", "p90"), float(step))
    entry = {
        "source": whole["source"],
        "summary": str(whole.get("compute", {}).get("times", "")),
        "step_time_s": step,
        **_divided(step, record.get("phases") or {}),
        **{
            f"{wire}bytes_{way}_per_rank": _moved(whole, way, wire)
            for wire in ("", "wire_")
            for way in ("sent", "received")
        },
        "tokens_per_s": whole.get("tokens_per_s"),
        "ranks": _ranks(whole),
        **{
            field: whole[field]
            for field in ("calls", "pairs", "placement", "model_memory", "link_use")
            if whole.get(field)
        },
    }
    return {"strategies": {str(whole["model"]): entry}}


def _divided(step: Mapping[str, float], phases: Mapping[str, Any]) -> dict[str, float]:
    """The four parts of the median step: means of all steps, they divide it as they do them."""
    mean = {what: float(of["mean_s"]) for what, of in phases.items()}
    whole = sum(mean.values()) or 1.0
    share = {what: step["median"] * time / whole for what, time in mean.items()}
    return {
        "compute_s": share.get("compute", 0.0),
        "exposed_comm_s": sum(time for what, time in share.items() if what not in _APART),
        "update_s": share.get("update", 0.0),
        "other_s": share.get("other", 0.0),
    }


def _moved(record: Mapping[str, Any], way: str, wire: str) -> list[int] | None:
    """The bytes that a step makes each rank send or receive; on the wire where all counted them."""
    rows = record.get("per_rank", ())
    if wire:
        wires = [rank["wire_bytes"][way] for rank in rows if "wire_bytes" in rank]
        return wires if wires and len(wires) == len(rows) else None
    found = []
    for rank in rows:
        simulated = rank.get("simulated_bytes")
        of = [simulated] if simulated else rank["predicted_bytes"].values()
        found.append(round(sum(one[way] for one in of)))
    return found


def _ranks(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    measured = record["source"] == "measured"
    host = str(record.get("environment", {}).get("host", "")) if measured else ""
    hosts = {rank["rank"]: rank["host"] for rank in record.get("per_rank", ()) if "host" in rank}
    count = record["world_size"] if "world_size" in record else record["ranks"]
    return [
        {"rank": rank, "host": hosts.get(rank, host), "step_time_s": NAN}
        | dict.fromkeys(_PARTS, NAN)
        for rank in range(int(count))
    ]


def with_ranks(record: RunRecord, timeline: Timeline) -> RunRecord:
    """The same, with how the steps of each rank divide, of those ranks that the timeline holds."""
    found = {}
    for name, figures in record.strategies.items():
        step = record.step_name(name)
        ranks = list(figures.ranks)
        if any(np.isnan(rank.step_time_s) for rank in ranks) and len(timeline.steps_named(step)):
            phases = phases_of_steps(timeline, step)
            for rank in np.unique(phases["rank"]).tolist():
                own = phases[phases["rank"] == rank]
                means = {part: float(own[part.removesuffix("_s")].mean()) for part in _PARTS}
                ranks[rank] = replace(
                    ranks[rank], step_time_s=float(own["duration"].mean()), **means
                )
        found[name] = replace(figures, ranks=ranks)
    return replace(record, strategies=found)
