"""Figures of a strategy, from the measurements of every rank."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.call_bytes import Traffic
from steptime.runs.axis_time import axis_times
from steptime.runs.figures import RankFigures, StepFigures, measured_steps, sum_by
from steptime.runs.load import CpuTime
from steptime.strategies import Strategy
from steptime.timeline import Timeline, phases_of_steps
from steptime.timeline.by_axis import axis_in_name, times_by_axis
from steptime.world.wire import Flow


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """The measurements of one rank training under a strategy.

    ``losses`` has one entry a step, untimed ones included; ``traffic`` and ``wire`` are bytes over
    ``steps`` steps: the former computed from the calls, the latter measured on sockets, None where
    the kernel has no count. Of the ``timeline`` the steps from ``timed_from`` on are timed.
    ``spent``: the CPU time of each turn, where strategies took turns. ``core_s``: what the rank's
    own thread needed of a core in each timed step, but for waiting: for the update, and before it
    for all else, shape (steps, 2); empty where a GPU computes. ``flows``: what its connections
    carried from their begin on.
    """

    rank: int
    host: str
    timed_from: int
    steps: int
    timeline: Timeline
    losses: list[float]
    traffic: Traffic
    wire: Traffic | None
    parameter_hash: str
    spent: Sequence[CpuTime] = ()
    core_s: Sequence[tuple[float, float]] = ()
    flows: Sequence[Flow] = ()


def timed_phases(strategy: str, records: Sequence[RankRecord]) -> NDArray[np.void]:
    """Phases of the timed steps of all ranks, shape (ranks, steps), dtype PHASES."""
    phases = []
    for record in records:
        steps = phases_of_steps(record.timeline, strategy)
        phases.append(steps[steps["step"] >= record.timed_from])
    return np.stack(phases)


def strategy_figures(
    strategy: Strategy, records: Sequence[RankRecord], timeline: Timeline, *, tokens_per_step: int
) -> StepFigures:
    """Combine the ``records`` of all ranks into figures; only timed steps count.

    ``timeline``: that of all ranks, on one clock, with what they waited for one another.
    """
    first = records[0].timed_from
    phases = phases_of_steps(timeline, strategy.name)
    by_axis = times_by_axis(timeline, strategy.name, axis_in_name, first)
    table = phases[phases["step"] >= first].reshape(len(records), -1)
    steps = records[0].steps
    sent = [record.traffic.sent // steps for record in records]
    received = [record.traffic.received // steps for record in records]
    wires = [record.wire for record in records if record.wire is not None]
    measured = len(wires) == len(records)
    hosts = [record.host for record in records]
    steps_found = measured_steps(table, [record.rank for record in records], hosts)
    steps_found["ranks"] = [
        _with_core_s(figures, record)
        for figures, record in zip(steps_found["ranks"], records, strict=True)
    ]
    return StepFigures(
        source="measured",
        summary=strategy.summary,
        **steps_found,
        axes=axis_times(by_axis, steps_found["step_time_s"].median),
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        wire_bytes_sent_per_rank=[w.sent // steps for w in wires] if measured else None,
        wire_bytes_received_per_rank=[w.received // steps for w in wires] if measured else None,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
        tokens_per_s=tokens_per_step / steps_found["step_time_s"].median,
        loss=[float(x) for x in np.mean([record.losses for record in records], axis=0)],
        parameter_hash=[record.parameter_hash for record in records],
    )


def _with_core_s(figures: RankFigures, record: RankRecord) -> RankFigures:
    if not record.core_s:
        return figures
    compute_s, update_s = np.mean(record.core_s, axis=0).tolist()
    return replace(figures, compute_core_s=compute_s, update_core_s=update_s)
