"""The step of a proxy as the figures of a strategy: the axes that it waits for are one part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steptime.runs.figures import EXPOSED, PARTS, WHOLE, RankFigures, StepFigures
from steptime.runs.proxy_record import ProxyPlan, ProxyStep
from steptime.timeline import Timeline, phases_of_steps

if TYPE_CHECKING:
    from steptime.runs.record import RunRecord

NAN = float("nan")
_APART = ("compute", "update", "other")


def figures_of(plan: ProxyPlan, step: ProxyStep, host: str = "") -> StepFigures:
    """The step of a proxy as that of a strategy; ``host`` is where its ranks ran.

    Of each rank it does not say how its steps divide: only the timeline tells, as ``with_ranks``
    does.
    """
    moved = [of.simulated_bytes or of.predicted for of in plan.per_rank]
    wires = [of.wire_bytes for of in plan.per_rank if of.wire_bytes]
    wired = 0 < len(wires) == len(plan.per_rank)
    share = _shares(step)
    unknown = dict.fromkeys(("step_time_s", *WHOLE), NAN)
    return StepFigures(
        source=step.source,
        summary=plan.compute.get("times", ""),
        step_time_s=step.step_time_s,
        compute_s=share.get("compute", 0.0),
        exposed_comm_s=_exposed_s(step),
        update_s=share.get("update", 0.0),
        other_s=share.get("other", 0.0),
        **{part: getattr(step, part) for part in EXPOSED},
        bytes_sent_per_rank=[one.sent for one in moved],
        bytes_received_per_rank=[one.received for one in moved],
        wire_bytes_sent_per_rank=[one.sent for one in wires] if wired else None,
        wire_bytes_received_per_rank=[one.received for one in wires] if wired else None,
        ranks=[RankFigures(rank=of.rank, host=host, **unknown) for of in plan.per_rank],
        calls=plan.calls,
        pairs=plan.pairs,
        placement=plan.placement,
        model_memory=plan.model_memory,
        tokens_per_s=_tokens_per_s(step),
        utilisation=step.utilisation,
        expected=step.expected,
    )


def _tokens_per_s(step: ProxyStep) -> float | None:
    """Tokens a second on all devices, where its model has tokens."""
    used = step.utilisation
    return used.tokens_per_s_per_device * used.work.devices if used else None


def _shares(step: ProxyStep) -> dict[str, float]:
    """What of the median step each phase takes: as of all steps, of which they are means."""
    median = step.step_time_s.median
    whole = sum(of.mean_s for of in step.phases.values()) or 1.0
    return {what: median * of.mean_s / whole for what, of in step.phases.items()}


def _exposed_s(step: ProxyStep) -> float:
    return sum(time for what, time in _shares(step).items() if what not in _APART)


def with_exposed(step: ProxyStep, found: Mapping[str, float]) -> ProxyStep:
    """The step with the parts of its exposed communication, divided as those ``found`` by field.

    Where nothing was found of what the main stream waited for, it has no reason but the order.
    """
    whole = sum(found.values())
    exposed_s = _exposed_s(step)
    if not whole:
        found, whole = dict.fromkeys(EXPOSED, 0.0) | {"dependency_s": 1.0}, 1.0
    parts: Any = {part: exposed_s * found[part] / whole for part in EXPOSED}
    return replace(step, **parts)


def with_ranks(record: RunRecord, timeline: Timeline) -> RunRecord:
    """The same, with how the steps of each rank divide, of those ranks that the timeline holds."""
    found = {}
    for name, figures in record.strategies.items():
        step = record.step_name(name)
        ranks = list(figures.ranks)
        parts = WHOLE if figures.transfer_s is None else PARTS
        if any(np.isnan(rank.step_time_s) for rank in ranks) and len(timeline.steps_named(step)):
            phases = phases_of_steps(timeline, step)
            for rank in np.unique(phases["rank"]).tolist():
                own = phases[phases["rank"] == rank]
                means = {part: float(own[part.removesuffix("_s")].mean()) for part in parts}
                ranks[rank] = replace(
                    ranks[rank], step_time_s=float(own["duration"].mean()), **means
                )
        found[name] = replace(figures, ranks=ranks)
    return replace(record, strategies=found)
