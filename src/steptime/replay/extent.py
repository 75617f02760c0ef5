"""Extent: how much an op of a program moves, in elements."""

from dataclasses import dataclass
from math import prod

from steptime.dtypes import BY_SHORT_NAME, item_bytes
from steptime.errors import UsageError
from steptime.measure.operation import OPERATIONS, Operation
from steptime.program import Collective, Op, Program, Recv, Send


@dataclass(frozen=True)
class Extent:
    """How much an op moves: ``count`` is the argument of its call, in elements of ``dtype``.

    ``whole`` and ``part`` are the elements of the two vectors that it needs: all ranks' data, and
    one rank's where that lies elsewhere.
    """

    dtype: str
    count: int
    whole: int
    part: int
    members: int


def axes_of(op: Collective | Send | Recv) -> tuple[str, ...]:
    """The axes along which an op communicates."""
    return op.group if isinstance(op, Collective) else (op.axis,)


def extent(program: Program, op: Collective | Send | Recv, messages: str) -> Extent:
    """The extent of ``op``; a Send or Recv is counted in elements of the dtype ``messages``.

    Raises UsageError for a kind or dtype that cannot be replayed, and for bytes that are no whole
    number of elements for each member.
    """
    dtype = op.dtype if isinstance(op, Collective) else messages
    if dtype not in BY_SHORT_NAME:
        raise UsageError(
            f"{op.name!r} of {program.name} is of {dtype!r}, which cannot be replayed: choose one "
            f"of {', '.join(BY_SHORT_NAME)}"
        )
    size = item_bytes(dtype)
    members = 2
    if isinstance(op, Collective):
        members = prod(program.axes[axis] for axis in op.group)
    elements, rest = divmod(op.nbytes, size)
    operation = _operation(program, op)
    shares = operation.elements(1, members)
    if rest or elements % shares:
        raise UsageError(
            f"{op.name!r} of {program.name} has {op.nbytes} bytes, which are no whole number of "
            f"{dtype} elements for each of {shares} ranks: make it a multiple of "
            f"{size * shares}"
        )
    count = elements // shares
    part = 0
    if shares > 1 or operation.shares_in or operation.shares_out:
        part = elements if operation.name == "all_to_all" else count
    return Extent(dtype, count, elements, part, members)


def _operation(program: Program, op: Collective | Send | Recv) -> Operation:
    name = op.kind if isinstance(op, Collective) else "sendrecv"
    if name not in OPERATIONS:
        raise UsageError(f"{op.name!r} of {program.name} is a {name!r}, which cannot be replayed")
    return OPERATIONS[name]


def label_of(op: Op) -> str:
    """The axes of an op as one word, empty where it does not communicate."""
    return "+".join(axes_of(op)) if isinstance(op, Collective | Send | Recv) else ""
