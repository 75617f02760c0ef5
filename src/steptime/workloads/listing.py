"""Lists of ops under way: what every generator of steps does to one."""

from collections.abc import Iterable
from dataclasses import replace

from steptime.program import Op
from steptime.program.program import After


def add(ops: list[Op], op: Op) -> After:
    """Append an op; its place, as ``after`` names it."""
    ops.append(op)
    return (len(ops) - 1,)


def follow_step_before(ops: list[Op], place: int, places: Iterable[int]) -> None:
    """Let the op at ``place`` wait for those at ``places`` of the step before; the list is whole.

    So the gathers of a strategy that overlaps travel behind the next step's forward.
    """
    op = ops[place]
    ops[place] = replace(op, after=(*op.after, *(there - len(ops) for there in places)))
