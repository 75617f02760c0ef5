"""From what every rank measured to what is printed of a strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steptime.collectives.call_bytes import Traffic
from steptime.strategies import Strategy
from steptime.timeline import Source, Timeline, phases_of_steps


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """What one rank brings home from training under a strategy.

    ``losses`` has one entry a step, warm-up included; ``traffic`` and ``wire`` are bytes over the
    ``steps`` timed steps, of which the first is number ``timed_from``: computed from the calls, and
    measured on its sockets where the kernel tells.
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


@dataclass(frozen=True)
class Spread:
    """Median and deciles of the timed steps, each as long as its slowest rank took, in seconds."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True, kw_only=True)
class RankFigures:
    """Means over the timed steps of one rank, in seconds; the four phases add up to the step."""

    rank: int
    host: str
    step_time_s: float
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float


@dataclass(frozen=True, kw_only=True)
class StrategyFigures:
    """The answer of one strategy, with the fields that the command line's JSON promises.

    The phases divide the median step as they divide all timed steps of all ranks together, so they
    add up to it. Bytes are those of one step. A simulation trains nothing and has no wire: it has
    no losses, no hashes and no bytes on one, and no tokens where its program says nothing of them.
    """

    source: Source
    summary: str
    step_time_s: Spread
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float
    bytes_sent_per_rank: list[int]
    bytes_received_per_rank: list[int]
    wire_bytes_sent_per_rank: list[int] | None
    wire_bytes_received_per_rank: list[int] | None
    bytes_sent_per_host: dict[str, int]
    bytes_received_per_host: dict[str, int]
    tokens_per_s: float | None
    loss: list[float]
    parameter_hash: list[str]
    ranks: list[RankFigures]


def strategy_figures(
    strategy: Strategy, records: Sequence[RankRecord], *, tokens_per_step: int
) -> StrategyFigures:
    """Sum up the ``records`` of all ranks; only timed steps count."""
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
    return StrategyFigures(
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


def sum_by(hosts: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    """What the ranks of each host have together."""
    sums = dict.fromkeys(hosts, 0)
    for host, value in zip(hosts, values, strict=True):
        sums[host] += value
    return sums
