"""Measured steps on the ideal network: the same calls in the same order, each taking no time.

What is then left of waiting is what ranks owe one another. The work of every rank in every step is
measured, and only the meetings of ranks are simulated, as in a replay of a trace by Dimemas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.cluster.files import parse_cluster
from steptime.cluster.what_if import ALL, Change, changed
from steptime.program import MAIN, Compute, Op, Program
from steptime.simulate.simulation import Simulation
from steptime.simulate.step import simulate
from steptime.timeline import Phase, Timeline
from steptime.timeline.efficiency import Usage, common_steps

_STAR = """
title = "one rank a host"
[device]
flops = {{ fp32 = "1TFLOP/s" }}
memory = "1TB"
memory_bandwidth = "1TB/s"
[host]
count = {ranks}
[nic]
bandwidth = "1GB/s"
latency = "1us"
[network]
kind = "switch"
"""


def on_ideal_network(cluster: Cluster) -> Cluster:
    """The cluster with messages that take no time, and reductions that take none either."""
    for name, figure in (("bandwidth", inf), ("latency", 0.0), ("reduction", inf)):
        cluster = changed(cluster, Change(name, value=figure), ALL)
    return cluster


def usage_of_simulation(simulation: Simulation) -> Usage:
    """What all ranks do in the last step of a simulation."""
    ranks = simulation.ranks
    return Usage(
        useful_s=tuple((ranks["compute_s"] + ranks["update_s"]).tolist()),
        run_time_s=float(simulation.step_s[-1]),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """What ranks did by themselves in some steps, in seconds; each of shape (steps, ranks)."""

    compute: Floats
    update: Floats
    other: Floats

    def __len__(self) -> int:
        return len(self.compute)


def work_of_steps(timeline: Timeline, name: str, first: int) -> Work:
    """The work of every rank in the steps called ``name``, from step ``first`` on.

    Raises UsageError where there are none.
    """
    phases = common_steps(timeline, name, first)
    ranks = len(np.unique(phases["rank"]))
    table = phases.reshape(ranks, -1).T  # (steps, ranks)
    return Work(compute=table["compute"], update=table["update"], other=table["other"])


def ideal_usage(program: Program, work: Work, threads: int = 1) -> Usage:
    """What the ranks of ``program`` come to in all steps of ``work`` on the ideal network."""
    cluster = on_ideal_network(parse_cluster(_STAR.format(ranks=max(2, program.ranks)), "ideal"))
    usage = usage_of_simulation(simulate(in_turn(program, work), cluster, steps=1))
    return replace(usage, steps=len(work), threads=threads)


def in_turn(program: Program, work: Work) -> Program:
    """All steps of ``work`` as one step, one after the other, each rank with its own times.

    Compute and update of ``program`` are stretched to what was measured, and what was neither they
    nor communication, such as the reading of a batch, stands before them: no network saves it.
    """
    lists = []
    for rank in range(program.ranks):
        ops = program.lists[program.class_of[rank]]
        step_ops: list[Op] = []
        for step in range(len(work)):
            seconds = {
                Phase.COMPUTE: float(work.compute[step, rank]),
                Phase.UPDATE: float(work.update[step, rank]),
            }
            step_ops += _one_step(ops, step, seconds, float(work.other[step, rank]))
        lists.append(tuple(step_ops))
    return replace(program, lists=tuple(lists), class_of=np.arange(program.ranks, dtype=np.int32))


def _one_step(
    ops: Sequence[Op], step: int, seconds: Mapping[Phase, float], other: float
) -> list[Op]:
    """The ops of one step among others of as many, behind one op more for the ``other`` time."""
    length = len(ops) + 1
    parts = {phase: _parts(ops, phase) for phase in seconds}

    def place(number: int) -> int:
        """Where the op that ``number`` means in this step's list is among those of all steps."""
        back = number < 0
        return (step - back) * length + 1 + number + back * len(ops)

    moved: list[Op] = [Compute(name="other", seconds=other, phase=Phase.OTHER, stream=MAIN)]
    for number, op in enumerate(ops):
        op = replace(op, after=tuple(p for p in map(place, op.after) if p >= 0))
        if isinstance(op, Compute) and op.phase in parts:
            op = replace(op, seconds=seconds[op.phase] * parts[op.phase][number])
        moved.append(op)
    return moved


def _parts(ops: Sequence[Op], phase: Phase) -> dict[int, float]:
    """Which part of a phase each of its ops is; the same of all where they take no time."""
    given = {
        number: op.seconds or 0.0
        for number, op in enumerate(ops)
        if isinstance(op, Compute) and op.phase is phase
    }
    whole = sum(given.values())
    return {number: own / whole if whole else 1 / len(given) for number, own in given.items()}
