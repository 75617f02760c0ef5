"""Figures of a strategy, from the measurements of every rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steptime.collectives.call_bytes import Traffic
from steptime.runs.figures import RankFigures, Spread, StepFigures, sum_by
from steptime.strategies import Strategy
from steptime.timeline import Timeline, phases_of_steps


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """The measurements of one rank training under a strategy.

    ``losses`` has one entry a step, warm-up included; ``traffic`` and ``wire`` are bytes over the
    ``steps`` timed steps, of which the first is number ``timed_from``: the former computed from the
    calls, the latter measured on sockets, None where the kernel has no count.
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


def strategy_figures(
    strategy: Strategy, records: Sequence[RankRecord], *, tokens_per_step: int
) -> StepFigures:
    """Combine the ``records`` of all ranks into figures; only timed steps count."""
    phases = []
    for record in records:
        steps = phases_of_steps(record.timeline, strategy.name)
        phases.append(steps[steps["step"] >= record.timed_from])
    table = np.stack(phases)  # (ranks, steps)
    duration = table["duration"].max(axis=0)  # (steps,)
    p10, median, p90 = (float(q) for q in np.percentile(duration, [10, 50, 90]))
    whole = float(table["duration"].sum())
    compute, exposed, update, other = (
        median * float(table[field].sum()) / whole
        for field in ("compute", "exposed_comm", "update", "other")
    )
    steps_timed = records[0].steps
    sent = [record.traffic.sent // steps_timed for record in records]
    received = [record.traffic.received // steps_timed for record in records]
    wires = [record.wire for record in records if record.wire is not None]
    measured = len(wires) == len(records)
    hosts = [record.host for record in records]
    return StepFigures(
        source="measured",
        summary=strategy.summary,
        step_time_s=Spread(median, p10, p90),
        compute_s=compute,
        exposed_comm_s=exposed,
        update_s=update,
        other_s=other,
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        wire_bytes_sent_per_rank=[w.sent // steps_timed for w in wires] if measured else None,
        wire_bytes_received_per_rank=[w.received // steps_timed for w in wires]
        if measured
        else None,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
        tokens_per_s=tokens_per_step / median,
        loss=[float(x) for x in np.mean([record.losses for record in records], axis=0)],
        parameter_hash=[record.parameter_hash for record in records],
        ranks=[
            RankFigures(
                rank=record.rank,
                host=record.host,
                step_time_s=float(rows["duration"].mean()),
                compute_s=float(rows["compute"].mean()),
                exposed_comm_s=float(rows["exposed_comm"].mean()),
                update_s=float(rows["update"].mean()),
                other_s=float(rows["other"].mean()),
            )
            for record, rows in zip(records, table, strict=True)
        ],
    )
