"""Placement: where in memory each call of a rank reads and writes, with as little as is sound.

What a call writes, no other call may touch while it is in progress. What it only reads, others may
read too: all calls read one source, which nobody writes. Two calls may write to the same place
where one has ended before the other begins, whatever the speed of anything: because they are on one
stream, or because an op of the main stream lies between them. Where received data is checked, each
call has its own data, so what it reads is not shared either.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from steptime.collectives.execute import Vector
from steptime.dtypes import item_bytes
from steptime.program import MAIN, Collective, Op, Recv, Send
from steptime.replay.extent import Extent

MESSAGE_BYTES = 128 << 20
"""A larger message is sent as several of half this size, from the same source."""

IN_PLACE = ("all_reduce", "reduce", "broadcast")
"""The collectives whose output overwrites their input."""

_FROM_PART = ("all_gather", "gather")
_ALIGNED = 64  # elements
_MOST_COUNTED = 8192
"""Limit of ops for which the order is computed: that takes the square of it in bits."""

Areas = tuple[int, int]
"""Elements that a call only reads, and elements that it writes."""


@dataclass(frozen=True)
class Layout:
    """The memory of a rank: elements of each dtype that are only read, and that are written.

    ``reads`` and ``writes``: where in them the areas of each op of the list are, empty for an op
    that has none. Without a source all is in the target.
    """

    source: Mapping[str, int]
    target: Mapping[str, int]
    reads: tuple[slice, ...]
    writes: tuple[slice, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return sum(
            item_bytes(dtype) * elements
            for area in (self.source, self.target)
            for dtype, elements in area.items()
        )


def areas(op: Op, extent: Extent | None, *, distinct: bool = False) -> Areas:
    """The areas of an op, in elements; what it sums in place counts as written.

    An all_reduce reads too, unless it is large: MPI may be far slower in place.
    """
    if extent is None or extent.members == 1:
        return (0, 0)  # nothing moves in a group of one
    if isinstance(op, Collective) and op.kind == "all_reduce" and not distinct:
        small = extent.whole * item_bytes(extent.dtype) <= MESSAGE_BYTES
        return (extent.whole if small else 0, extent.whole)
    if isinstance(op, Send):
        return (extent.whole, 0)
    if isinstance(op, Recv) or (isinstance(op, Collective) and op.kind in IN_PLACE):
        return (0, extent.whole)
    if isinstance(op, Collective) and op.kind in _FROM_PART:
        return (extent.part, extent.whole)
    return (extent.whole, extent.part)


def in_order(kind: str, read: Vector, written: Vector) -> tuple[Vector, Vector]:
    """The whole and the part of a collective, from the vectors that it reads and writes."""
    gathers = kind in IN_PLACE or kind in _FROM_PART
    return (written, read) if gathers else (read, written)


def pieces(elements: int, dtype: str) -> list[slice]:
    """The sizes of the messages as which one message of so many elements is sent."""
    if elements * item_bytes(dtype) <= MESSAGE_BYTES:
        return [slice(0, elements)]
    most = MESSAGE_BYTES // 2 // item_bytes(dtype)
    return [slice(at, min(at + most, elements)) for at in range(0, elements, most)]


def layout(ops: Sequence[Op], extents: Sequence[Extent | None], *, distinct: bool) -> Layout:
    """Place the areas of all ops; ``distinct``: what is read is not shared either."""
    source: dict[str, int] = {}
    wanted: dict[str, list[_Wanted]] = {}
    ended = _ended(ops)
    for place, (op, extent, between) in enumerate(zip(ops, extents, lifetimes(ops), strict=True)):
        read, written = areas(op, extent, distinct=distinct)
        if extent is None or not read + written:
            continue
        if distinct:
            written += _aligned(read)
        else:
            if isinstance(op, Send):
                read = max(piece.stop - piece.start for piece in pieces(read, extent.dtype))
            source[extent.dtype] = max(source.get(extent.dtype, 0), read)
        if written:
            before = ended[place] if between[1] < inf else 0  # of the next step it may be after
            wanted.setdefault(extent.dtype, []).append(
                _Wanted(place, op.stream, written, before, *between)
            )
    at, target = [0] * len(ops), {}
    for dtype, of_dtype in wanted.items():
        target[dtype] = _place(of_dtype, at.__setitem__)
    reads, writes = [], []
    for place, (op, extent) in enumerate(zip(ops, extents, strict=True)):
        read, written = areas(op, extent, distinct=distinct)
        start = at[place] if distinct else 0
        reads.append(slice(start, start + read))
        start = at[place] + (_aligned(read) if distinct else 0)
        writes.append(slice(start, start + written))
    return Layout({} if distinct else source, target, tuple(reads), tuple(writes))


def lifetimes(ops: Sequence[Op]) -> list[tuple[float, float]]:
    """Between which two ops of the main stream, counted from 0, each op may be in progress.

    The first has surely ended before it begins, and the second surely begins after it has ended. An
    op for which nothing on the main stream waits in the same step may be in progress at any time.
    """
    return _between(ops, _before(ops))


def _before(ops: Sequence[Op]) -> list[list[int]]:
    """The ops of the same step that must end before each: on its stream, and in ``after``."""
    before: list[list[int]] = []
    last: dict[str, int] = {}
    for place, op in enumerate(ops):
        before.append([at for at in op.after if at >= 0])
        if op.stream in last:
            before[place].append(last[op.stream])
        last[op.stream] = place
    return before


def _ended(ops: Sequence[Op]) -> list[int]:
    """All ops of the same step that have ended before each begins: sets, with a bit for each op."""
    if len(ops) > _MOST_COUNTED:
        return [0] * len(ops)
    ended: list[int] = []
    for before in _before(ops):
        ended.append(0)
        for at in before:
            ended[-1] |= ended[at] | 1 << at
    return ended


def _between(ops: Sequence[Op], before: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    numbers, count = [-1] * len(ops), 0
    for place, op in enumerate(ops):
        if op.stream == MAIN:
            numbers[place], count = count, count + 1

    def number(place: int, else_: Sequence[float]) -> float:
        return numbers[place] if numbers[place] >= 0 else else_[place]

    since: list[float] = [-1.0] * len(ops)
    until: list[float] = [inf] * len(ops)
    for place in range(len(ops)):
        since[place] = max((number(at, since) for at in before[place]), default=-1.0)
    for place in reversed(range(len(ops))):
        for at in before[place]:
            until[at] = min(until[at], number(place, until))
    return [
        (begin, end) if end < inf else (-inf, inf) for begin, end in zip(since, until, strict=True)
    ]


@dataclass
class _Wanted:
    place: int
    stream: str
    elements: int
    ended: int
    since: float
    until: float


@dataclass
class _Taken:
    stream: str
    at: int
    end: int
    users: int
    until: float


def _place(wanted: Sequence[_Wanted], put: Callable[[int, int], None]) -> int:
    """Put each area at the lowest place that is free while it is needed; returns the size."""
    taken: list[_Taken] = []
    most = 0
    for one in sorted(wanted, key=lambda one: one.since):
        taken = [other for other in taken if other.until > one.since]
        size = _aligned(one.elements)
        concurrent = [
            other for other in taken if other.stream != one.stream and other.users & ~one.ended
        ]
        own = [
            other
            for other in taken
            if other.stream == one.stream and other.end - other.at >= size
            if _lowest(concurrent, size, other.at) == other.at
        ]
        if own:
            spot = own[0]
        else:
            at = _lowest(concurrent, size)
            spot = _Taken(one.stream, at, at + size, 0, one.until)
            taken.append(spot)
        spot.users |= 1 << one.place
        spot.until = max(spot.until, one.until)
        put(one.place, spot.at)
        most = max(most, spot.at + size)
    return most


def _lowest(taken: Sequence[_Taken], size: int, at: int = 0) -> int:
    """The lowest place from ``at`` on where so many elements are free of ``taken`` areas."""
    for other in sorted(taken, key=lambda other: other.at):
        if at + size <= other.at:
            break
        at = max(at, other.end)
    return at


def _aligned(elements: int) -> int:
    return -(-elements // _ALIGNED) * _ALIGNED
