"""What a library's calls compute, put into the program where ranks share cores.

A library copies, adds up and wakes threads on the cores that compute: of the time of a call among
more ranks than cores most is work of these. Timed alone it is all that they do; within a step it is
done beside what other ranks compute, and delays that.
"""

from dataclasses import replace
from math import prod

from steptime.cluster import MESSAGE, Cluster
from steptime.program import Collective, Compute, Op, Program, Recv, Send
from steptime.program.program import renumbered
from steptime.simulate.measured import nearest
from steptime.timeline import Phase

WORK = "work "
"""How the names of these ops begin; that of the call follows."""


def with_work(program: Program, cluster: Cluster) -> Program:
    """The program with an op behind each call for what each of its ranks computes for it.

    What comes after the call comes after that. A call of a kind that was not measured has none.
    """

    def work_s(op: Collective | Send | Recv) -> float:
        if isinstance(op, Collective):
            members = prod(program.axes[axis] for axis in op.group)
            measured = nearest(cluster.calls.get(op.kind, ()), members)
            return measured.work_at(op.nbytes) if measured and members > 1 else 0.0
        measured = nearest(cluster.calls.get(MESSAGE, ()), program.ranks)
        return measured.work_at(op.nbytes) / 2 if measured else 0.0  # of one of its two ends

    def with_its_work(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        made: list[Op] = []
        now: list[int] = []  # where what each op ends with is in the new list
        for op in ops:
            made.append(op)
            if isinstance(op, Collective | Send | Recv) and (seconds := work_s(op)):
                made.append(_work(op, seconds))
            now.append(len(made) - 1)
        return renumbered(made, now)

    return replace(program, lists=tuple(map(with_its_work, program.lists)))


def _work(op: Collective | Send | Recv, seconds: float) -> Compute:
    return Compute(
        name=WORK + op.name, seconds=seconds, phase=Phase.COMMUNICATION, stream=op.stream
    )
