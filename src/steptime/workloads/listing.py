"""Appending ops to the list of a step, and linking it to the step before."""

from collections.abc import Iterable
from dataclasses import replace

from steptime.program import Op
from steptime.program.program import After


def add(ops: list[Op], op: Op) -> After:
    """Append an op; returns its place as a value of ``after``."""
    ops.append(op)
    return (len(ops) - 1,)


def follow_step_before(ops: list[Op], place: int, places: Iterable[int]) -> None:
    """Let the op at ``place`` wait for those at ``places`` of the step before.

    The list must be complete. So the gathers of a strategy that overlaps run behind the next step's
    forward.
    """
    op = ops[place]
    ops[place] = replace(op, after=(*op.after, *(there - len(ops) for there in places)))
