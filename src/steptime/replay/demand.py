"""Demand: a step's calls, elements, bytes, memory and time for each class of ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, prod

import numpy as np

from steptime.arrays import Ints
from steptime.collectives.call_bytes import Traffic, member_bytes
from steptime.measure.operation import OPERATIONS
from steptime.program import Collective, Compute, Op, Program, Recv, Send
from steptime.replay.device import Device
from steptime.replay.extent import extent, label_of
from steptime.replay.placement import layout
from steptime.runs.proxy_record import Calls


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one step demands of each rank of a class.

    ``collectives``: by kind, axes and members. ``memory_bytes``: of the buffers alone.
    """

    sends: Calls
    receives: Calls
    collectives: Mapping[tuple[str, tuple[str, ...], int], Calls]
    compute_s: float
    memory_bytes: int


def memory_bytes(
    program: Program, ops: Sequence[Op], messages: str, *, distinct: bool = False
) -> int:
    """Bytes of all buffers of a rank with these ops; ``distinct`` as ``layout`` has it."""
    extents = [
        extent(program, op, messages) if isinstance(op, Collective | Send | Recv) else None
        for op in ops
    ]
    return layout(ops, extents, distinct=distinct).nbytes


def demands(
    program: Program, device: Device, messages: str = "fp32", *, distinct: bool = False
) -> tuple[Demand, ...]:
    """The demand of a step on the ranks of each class; raises UsageError as ``extent`` does."""
    return tuple(_demand(program, ops, device, messages, distinct) for ops in program.lists)


def _demand(
    program: Program, ops: Iterable[Op], device: Device, messages: str, distinct: bool
) -> Demand:
    listed = tuple(ops)
    sends, receives = Calls(), Calls()
    collectives: dict[tuple[str, tuple[str, ...], int], Calls] = {}
    for op in listed:
        if not isinstance(op, Collective | Send | Recv):
            continue
        found = extent(program, op, messages)
        if isinstance(op, Send):
            sends = sends.plus(found.count)
        elif isinstance(op, Recv):
            receives = receives.plus(found.count)
        else:
            key = (op.kind, op.group, found.members)
            collectives[key] = collectives.get(key, Calls()).plus(found.count)
    return Demand(
        sends=sends,
        receives=receives,
        collectives=collectives,
        compute_s=sum(device.seconds(op) for op in listed if isinstance(op, Compute)),
        memory_bytes=memory_bytes(program, listed, messages, distinct=distinct),
    )


def labels_of(program: Program) -> tuple[str, ...]:
    """The labels of the axes along which any rank communicates, in alphabetical order."""
    return tuple(sorted({label_of(op) for ops in program.lists for op in ops} - {""}))


def predicted(program: Program) -> list[Mapping[str, Traffic]]:
    """The bytes that each rank sends and receives in a step, by label of axes.

    Rooted collectives are counted as their definition moves data, all others by bandwidth-optimal
    algorithms: a library may send more.
    """
    roots: dict[tuple[str, ...], set[int]] = {}
    for ops in program.lists:
        for op in ops:
            if isinstance(op, Collective) and OPERATIONS[op.kind].rooted:
                roots.setdefault(op.group, set()).add(op.root)
    # Ranks of a class differ in what they send only where one of them is a root.
    places = {axes: _places(program, axes) for axes in roots}
    for axes, places_of in places.items():
        places_of[~np.isin(places_of, list(roots[axes]))] = -1
    known: dict[tuple[int, ...], Mapping[str, Traffic]] = {}
    found = []
    for rank, kind in enumerate(program.class_of.tolist()):
        key = (kind, *(int(of[rank]) for of in places.values()))
        if key not in known:
            known[key] = _predicted(
                program, program.lists[kind], dict(zip(places, key[1:], strict=True))
            )
        found.append(known[key])
    return found


def _places(program: Program, axes: tuple[str, ...]) -> Ints:
    """The place of each rank in its group, shape (ranks,)."""
    groups = program.groups(axes)
    places = np.empty(program.ranks, np.int32)
    places[groups] = np.arange(groups.shape[1], dtype=np.int32)
    return places


def _predicted(
    program: Program, ops: Iterable[Op], places: Mapping[tuple[str, ...], int]
) -> Mapping[str, Traffic]:
    total: dict[str, Traffic] = {}
    for op in ops:
        if isinstance(op, Collective):
            members = prod(program.axes[axis] for axis in op.group)
            place = places.get(op.group, 0)
            moved = member_bytes(op.kind, op.nbytes, place, members, op.root)
        elif isinstance(op, Send):
            moved = Traffic(op.nbytes, 0)
        elif isinstance(op, Recv):
            moved = Traffic(0, op.nbytes)
        else:
            continue
        total[label_of(op)] = total.get(label_of(op), Traffic(0, 0)).plus(moved)
    return total


def scaled(program: Program, fraction: Fraction, messages: str = "fp32") -> Program:
    """The same program with messages of a ``fraction`` of their bytes, at least one element each.

    Counts are rounded up, so that all members of a group agree.
    """
    if fraction == 1:
        return program

    def smaller(op: Op) -> Op:
        if not isinstance(op, Collective | Send | Recv) or not op.nbytes:
            return op
        found = extent(program, op, messages)
        count = max(1, ceil(found.count * fraction))
        return replace(op, nbytes=op.nbytes // found.count * count)

    lists = tuple(tuple(map(smaller, ops)) for ops in program.lists)
    return replace(program, lists=lists)
