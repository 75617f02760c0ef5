"""Checking a program for contradictions before it is used."""

from collections.abc import Sequence
from math import inf, prod

from steptime.errors import UsageError
from steptime.program.kernel import Kernel, check_kernel
from steptime.program.program import Collective, Compute, Op, Program, Recv, Send


def check(program: Program) -> None:
    """Raise UsageError where a program contradicts itself; the error names the op.

    ``match_calls`` checks that the ranks' calls match each other.
    """
    if program.ranks < 1 or prod(program.axes.values()) != program.ranks:
        raise UsageError(
            f"the axes of {program.name} hold {prod(program.axes.values())} ranks and its program "
            f"has {program.ranks}"
        )
    wrong = (program.class_of < 0) | (program.class_of >= len(program.lists))
    if wrong.any():
        rank = int(wrong.argmax())
        raise UsageError(
            f"rank {rank} of {program.name} is of class {program.class_of[rank]}, and there are "
            f"{len(program.lists)} lists of ops"
        )
    known: dict[int, tuple[Kernel, ...]] = {}  # those checked, by id: many ops share them
    for ops in program.lists:
        for place, op in enumerate(ops):
            _check_order(program, ops, place)
            if isinstance(op, Compute):
                _check_compute(program, op)
                if id(op.kernels) not in known:
                    known[id(op.kernels)] = op.kernels
                    for kernel in op.kernels:
                        check_kernel(kernel)
            elif isinstance(op, Collective | Send | Recv):
                _check_communication(program, op)


def _check_order(program: Program, ops: Sequence[Op], place: int) -> None:
    after = ops[place].after
    if after and not -len(ops) <= min(after) <= max(after) < place:
        raise UsageError(
            f"{ops[place].name!r} of {program.name} waits for an op that does not come before it"
        )


def _check_compute(program: Program, op: Compute) -> None:
    for what, value in (("seconds", op.seconds or 0.0), ("flops", op.flops), ("nbytes", op.nbytes)):
        if not 0 <= value < inf:
            raise UsageError(
                f"{op.name!r} of {program.name} has {what} of {value}: it must be a number of at "
                "least 0"
            )


def _check_communication(program: Program, op: Collective | Send | Recv) -> None:
    axes = op.group if isinstance(op, Collective) else (op.axis,)
    unknown = [axis for axis in axes if axis not in program.axes]
    if unknown:
        raise UsageError(
            f"{op.name!r} of {program.name} is along the axis {unknown[0]!r}, which it lacks: it "
            f"has {', '.join(program.axes)}"
        )
    if len(set(axes)) != len(axes):
        raise UsageError(f"the group of {op.name!r} of {program.name} names an axis twice")
    if op.nbytes < 0:
        raise UsageError(
            f"{op.name!r} of {program.name} has {op.nbytes} bytes: it must be at least 0"
        )
    if isinstance(op, Collective):
        members = prod(program.axes[axis] for axis in axes)
        if not 0 <= op.root < members:
            raise UsageError(
                f"{op.name!r} of {program.name} has the root {op.root}, and its group has the "
                f"members 0 to {members - 1}"
            )
