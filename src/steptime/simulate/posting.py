"""Posting: what beginning a message takes of the rank that computes.

A message has two costs (LogP's L and o; Culler et al. 1993): how long it is on its way, and how
long it keeps either rank from computing. The second counts where ranks are cores of a CPU and
their library copies, locks and wakes threads on them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from steptime.cluster import POST, CallTimes, Cluster
from steptime.program import Compute, Op, Program, Recv, Send
from steptime.timeline import Phase


def with_posting(program: Program, cluster: Cluster) -> Program:
    """The program with an op on its main stream behind each end of a message, of posting it.

    The same program where the cluster says nothing of that.
    """
    measured = cluster.calls.get(POST)
    if not measured:
        return program
    return replace(program, lists=tuple(_posted(ops, measured[0]) for ops in program.lists))


def _posted(ops: Sequence[Op], measured: CallTimes) -> tuple[Op, ...]:
    ends = [isinstance(op, Send | Recv) for op in ops]
    before = [0, *accumulate(ends)]  # how many ops are put in before each

    def place(number: int) -> int:
        """Where the op that ``number`` means is now; a negative one counts from the end."""
        if number >= 0:
            return number + before[number]
        return number + before[len(ops) + number] - before[-1]

    posted: list[Op] = []
    for op in ops:
        posted.append(replace(op, after=tuple(map(place, op.after))))
        if isinstance(op, Send | Recv):
            seconds = measured.at(op.nbytes)
            posted.append(Compute(name="post", seconds=seconds, phase=Phase.COMMUNICATION))
    return tuple(posted)
