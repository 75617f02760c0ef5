"""Appending ops to the list of a step, and linking it to the step before."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from steptime.program import Collective, Compute, Op, Recv, Send
from steptime.program.program import After
from steptime.workloads.precision import element_bytes
from steptime.workloads.sync import Calls

AnyOp = TypeVar("AnyOp", Compute, Collective, Send, Recv)


def add(ops: list[Op], op: Op) -> After:
    """Append an op; returns its place as a value of ``after``."""
    ops.append(op)
    return (len(ops) - 1,)


def called(op: AnyOp, name: str, after: After) -> AnyOp:
    """The same op by another ``name``, after others.

    As ``replace`` makes it, in a tenth of the time: a step of many micro-batches has some ten
    thousand copies of a few ops.
    """
    made = object.__new__(type(op))
    made.__dict__.update(op.__dict__, name=name, after=after)
    return made


def follow_step_before(ops: list[Op], place: int, places: Iterable[int]) -> None:
    """Let the op at ``place`` wait for those at ``places`` of the step before.

    The list must be complete. So the gathers of a strategy that overlaps run behind the next step's
    forward.
    """
    op = ops[place]
    ops[place] = replace(op, after=(*op.after, *(there - len(ops) for there in places)))


def share_behind_forward(
    ops: list[Op], forward: Iterable[tuple[int, int]], shared: Sequence[tuple[int, int, int]]
) -> None:
    """Let each unit's first forward wait for the parameters that the step before sent it.

    ``forward``: units and where each is computed first. ``shared``: the first and the last unit of
    each bucket, and where one of its parameters' collectives is.
    """
    for unit, place in forward:
        wanted = (where for first, last, where in shared if first <= unit <= last)
        follow_step_before(ops, place, wanted)


def collectives(
    calls: Calls,
    elements: int,
    ranks: int,
    *,
    words: Sequence[str],
    group: tuple[str, ...],
    dtype: str,
    stream: str = "comm",
) -> Iterator[Collective]:
    """The collectives that so many elements take among the ranks of a group; none of one rank.

    Each is called by its kind and the ``words`` that are not empty.
    """
    for call in calls(elements, ranks) if ranks > 1 else ():
        yield Collective(
            name=" ".join(word for word in (call.kind, *words) if word),
            kind=call.kind,
            group=group,
            nbytes=call.elements * element_bytes(dtype),
            dtype=dtype,
            root=call.root,
            stream=stream,
        )
