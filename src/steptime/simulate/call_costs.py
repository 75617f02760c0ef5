"""What calls cost beyond their messages where ranks are cores of a CPU, put into the program.

Of a program whose computing takes what it took by the clock; of one that says what it needs of a
core see ``work.py``. A library copies, locks and wakes threads on the cores that compute. Two of
its costs are no part of a call that is timed alone:

- *post*: how long beginning a message keeps either of its ranks from computing, LogP's o beside
  its latency L (Culler et al. 1993);
- *late*: how much longer a call takes that comes after computing, when its ranks do not arrive
  together and its threads must wake.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from steptime.cluster import MESSAGE, POST, Cluster
from steptime.program import MAIN, Collective, Compute, Op, Program, Recv, Send
from steptime.program.program import After, renumbered
from steptime.simulate.device import timer
from steptime.simulate.measured import nearest
from steptime.timeline import Phase

LATE, POSTING = "late ", "post"
"""How the names of these ops begin; that of a call that comes late follows."""

_COMPUTES_S = 1e-4
"""A call that follows at least so many seconds of computing comes after computing."""


def with_costs(program: Program, cluster: Cluster) -> Program:
    """The program with ops for the costs that were measured on the cluster; the same without any.

    A call that comes late has one before it on its stream, and what is computed while messages are
    under way one of posting them before it.
    """
    calls = cluster.calls
    if POST not in calls and not any(any(one.late) for kind in calls.values() for one in kind):
        return program

    def late_s(op: Collective | Send | Recv) -> float:
        kind, ranks = MESSAGE, program.ranks
        if isinstance(op, Collective):
            kind, ranks = op.kind, prod(program.axes[axis] for axis in op.group)
        measured = nearest(calls.get(kind, ()), ranks)
        return measured.late_at(op.nbytes) if measured and ranks > 1 else 0.0

    def post_s(op: Send | Recv) -> float:
        measured = nearest(calls.get(POST, ()), program.ranks)
        return measured.at(op.nbytes) if measured else 0.0

    seconds = timer(cluster.device)
    lists = tuple(_with_costs(ops, seconds, late_s, post_s) for ops in program.lists)
    return replace(program, lists=lists)


def _with_costs(
    ops: Sequence[Op],
    seconds: Callable[[Compute], float],
    late_s: Callable[[Collective | Send | Recv], float],
    post_s: Callable[[Send | Recv], float],
) -> tuple[Op, ...]:
    made: list[Op] = []
    now: list[int] = []  # where each op is in the new list
    posted: dict[int, float] = {}  # what messages cost that may be under way, by their place
    computed_s = 0.0
    for number, op in enumerate(ops):
        # What was waited for delays nothing any more: what the message takes contains its cost.
        for at in _ended_before(ops, op, posted):
            del posted[at]
        if isinstance(op, Compute) and op.stream == MAIN:
            computed_s += (own_s := seconds(op))
            if posted and own_s >= _COMPUTES_S:
                made.append(_cost(POSTING, sum(posted.values()), MAIN, ()))
                posted.clear()
        if isinstance(op, Collective | Send | Recv):
            if computed_s >= _COMPUTES_S and (late := late_s(op)):
                made.append(_cost(LATE + op.name, late, op.stream, op.after))
            computed_s = 0.0
        now.append(len(made))
        made.append(op)
        if isinstance(op, Send | Recv) and (cost := post_s(op)):
            posted[number] = cost
    return renumbered(made, now)


def _ended_before(ops: Sequence[Op], op: Op, posted: Iterable[int]) -> list[int]:
    """Those posted messages that the main stream has waited for when it comes to ``op``."""
    if op.stream != MAIN:
        return []
    last = {ops[at].stream: at for at in sorted(op.after) if at >= 0}  # of each stream
    return [at for at in posted if at <= last.get(ops[at].stream, -1)]


def _cost(name: str, seconds: float, stream: str, after: After) -> Compute:
    phase = Phase.COMMUNICATION
    return Compute(name=name, seconds=seconds, phase=phase, stream=stream, after=after)
