"""The step of a proxy as the figures of a strategy: the axes that it waits for are one part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steptime.runs.figures import RankFigures, StepFigures
from steptime.runs.proxy_record import ProxyPlan, ProxyStep
from steptime.timeline import Timeline, phases_of_steps

if TYPE_CHECKING:
    from steptime.runs.record import RunRecord

NAN = float("nan")
_APART = ("compute", "update", "other")
_PARTS = ("compute_s", "exposed_comm_s", "update_s", "other_s")


def figures_of(plan: ProxyPlan, step: ProxyStep, host: str = "") -> StepFigures:
    """The step of a proxy as that of a strategy; ``host`` is where its ranks ran.

    Of each rank it does not say how its steps divide: only the timeline tells, as ``with_ranks``
    does.
    """
    moved = [of.simulated_bytes or of.predicted for of in plan.per_rank]
    wires = [of.wire_bytes for of in plan.per_rank if of.wire_bytes]
    wired = 0 < len(wires) == len(plan.per_rank)
    share = _shares(step)
    unknown = dict.fromkeys(("step_time_s", *_PARTS), NAN)
    return StepFigures(
        source=step.source,
        summary=plan.compute.get("times", ""),
        step_time_s=step.step_time_s,
        compute_s=share.get("compute", 0.0),
        exposed_comm_s=sum(time for what, time in share.items() if what not in _APART),
        update_s=share.get("update", 0.0),
        other_s=share.get("other", 0.0),
        bytes_sent_per_rank=[one.sent for one in moved],
        bytes_received_per_rank=[one.received for one in moved],
        wire_bytes_sent_per_rank=[one.sent for one in wires] if wired else None,
        wire_bytes_received_per_rank=[one.received for one in wires] if wired else None,
        ranks=[RankFigures(rank=of.rank, host=host, **unknown) for of in plan.per_rank],
        calls=plan.calls,
        pairs=plan.pairs,
        placement=plan.placement,
        model_memory=plan.model_memory,
    )


def _shares(step: ProxyStep) -> dict[str, float]:
    """What of the median step each phase takes: as of all steps, of which they are means."""
    median = step.step_time_s.median
    whole = sum(of.mean_s for of in step.phases.values()) or 1.0
    return {what: median * of.mean_s / whole for what, of in step.phases.items()}


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
