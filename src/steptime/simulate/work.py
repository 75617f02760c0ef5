"""What a library's calls work and wait for, put into the program where ranks share cores.

A library copies, adds up and wakes threads on the cores that compute: of the time of a call among
more ranks than cores most is work of these. Timed alone it is all that they do; within a step it is
done beside what other ranks compute, and delays that. In the rest of the time threads wake one
another, which takes long on a core that sleeps, and no time of its own on one that computes.
"""

from dataclasses import replace
from functools import lru_cache
from math import prod

from steptime.cluster import MESSAGE, CallTimes, Cluster
from steptime.collectives.selection import blocks_for
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.program.program import renumbered
from steptime.simulate.measured import nearest, simulated_seconds
from steptime.timeline import Phase

REST, WORK = "rest ", "work "
"""How the names of these ops begin; that of the call follows."""


def with_work(program: Program, cluster: Cluster) -> Program:
    """The program with two ops behind each call: its rest, and what its ranks compute for it.

    What comes after the call comes after these. A call of a kind that was not measured has none.
    The latencies of its messages are part of the rest, and are not in the program.
    """

    @lru_cache
    def latency_s(kind: str, measured: CallTimes, blocks: int) -> float:
        return simulated_seconds(cluster, kind, measured, 1, blocks=blocks)

    def costs(op: Collective | Send | Recv) -> tuple[float, float]:
        """Seconds of rest, and of a core of each rank."""
        kind, ranks = MESSAGE, program.ranks
        if isinstance(op, Collective):
            kind, ranks = op.kind, prod(program.axes[axis] for axis in op.group)
        measured = nearest(cluster.calls.get(kind, ()), ranks) if ranks > 1 else None
        if measured is None or not measured.work:
            return 0.0, 0.0
        rest_s = measured.rest_at(op.nbytes) - latency_s(kind, measured, blocks_for(op.nbytes))
        part = 1.0 if isinstance(op, Collective) else 0.5  # of a message each end has its half
        return max(rest_s, 0.0), part * measured.work_at(op.nbytes)

    def with_its_work(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        made: list[Op] = []
        now: list[int] = []  # where what each op ends with is in the new list
        for op in ops:
            made.append(op)
            if isinstance(op, Collective | Send | Recv):
                rest_s, work_s = costs(op)
                if rest_s:
                    made.append(Wait(name=REST + op.name, seconds=rest_s, stream=op.stream))
                if work_s:
                    made.append(_work(op, work_s))
            now.append(len(made) - 1)
        return renumbered(made, now)

    return replace(program, lists=tuple(map(with_its_work, program.lists)))


def _work(op: Collective | Send | Recv, seconds: float) -> Compute:
    return Compute(
        name=WORK + op.name, seconds=seconds, phase=Phase.COMMUNICATION, stream=op.stream
    )
