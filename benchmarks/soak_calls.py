"""The calls of soak.py: what every rank gives, and what the definitions make of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import steptime.backend as backend

FARTHER = backend.custom("farther", lambda a, b: torch.where(a < b, b, a))

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
NARROW = (torch.float8_e4m3fn, torch.float8_e5m2)
COPIED = (*INTEGERS, *FLOATS, *COMPLEX, *NARROW, torch.bool, torch.uint16, torch.uint64)
REDUCED = {
    "SUM": (*INTEGERS, *FLOATS, *COMPLEX, *NARROW, torch.bool),
    "AVG": (*INTEGERS, *FLOATS, *NARROW),
    "PRODUCT": (*INTEGERS, *FLOATS, *NARROW, torch.bool),
    "MIN": (*INTEGERS, *FLOATS, torch.bool),
    "MAX": (*INTEGERS, *FLOATS, torch.bool),
    "BAND": (*INTEGERS, torch.bool),
    "BOR": (*INTEGERS, torch.bool),
    "BXOR": (*INTEGERS, torch.bool),
}
DEFINITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SUM": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


@dataclass(frozen=True)
class Call:
    """What all ranks draw alike; ``root`` and ``other`` are drawn from the ranks of the group."""

    number: int
    kind: str
    group: int
    root: int
    other: int
    op: str
    dtype: torch.dtype
    elements: int
    asynchronous: bool

    def __str__(self) -> str:
        return (
            f"call {self.number}: {self.kind} of {self.dtype}[{self.elements}] ({self.op}), "
            f"root {self.root}, {'asynchronous' if self.asynchronous else 'synchronous'}"
        )


@dataclass(frozen=True)
class Place:
    """A rank in a group, and its own random choices."""

    group: Any
    rank: int
    ranks: int
    own: random.Random


@dataclass(frozen=True)
class Started:
    """Calls under way, and the tensors that must be equal when they are done."""

    works: list[Any]
    pairs: list[tuple[Tensor, Tensor]]


# What the ranks give and what the definitions make of it


def values(call: Call, rank: int, part: int = 0, elements: int | None = None) -> Tensor:
    """Small whole numbers that depend on call, rank, part and index; sums of them are exact."""
    index = torch.arange(call.elements if elements is None else elements)
    below = 3 if call.op == "PRODUCT" else 16
    mixed = (index * (2 * rank + 3) + 131 * call.number + 17 * rank + 71 * part) % 8191
    if call.dtype.is_complex:
        parts = (mixed % below).double(), (mixed // 5 % below).double()
        return torch.complex(*parts).to(call.dtype)
    return (mixed % 2 if call.dtype == torch.bool else mixed % below).to(call.dtype)


def reduced(call: Call, tensors: list[Tensor]) -> Tensor:
    wide = torch.float64 if call.dtype.is_floating_point else call.dtype
    total = reduce(DEFINITIONS.get(call.op, torch.add), [tensor.to(wide) for tensor in tensors])
    if call.op == "AVG":
        rounding = None if call.dtype.is_floating_point else "trunc"
        total = total.div(len(tensors), rounding_mode=rounding)
    return total.to(call.dtype)


def everyone(call: Call, place: Place, part: int = 0) -> list[Tensor]:
    return [values(call, rank, part) for rank in range(place.ranks)]


def placed(tensor: Tensor, place: Place) -> Tensor:
    """The same elements wherever this rank chooses."""
    where = place.own.choice(("plain", "holes", "transposed", "arena", "within the arena"))
    if where == "plain":
        return tensor.clone()
    if where == "holes":
        view = torch.empty(*tensor.shape, 2, dtype=tensor.dtype)[..., 0]
    elif where == "transposed" and tensor.numel() and tensor.numel() % 6 == 0:
        return tensor.view(6, -1).t().contiguous().t()
    elif where == "arena":
        view = backend.empty(tensor.numel(), dtype=tensor.dtype)
    else:
        view = backend.empty(tensor.numel() + 7, dtype=tensor.dtype)[3:-4]
    return view.copy_(tensor)


def blank(call: Call, place: Place, elements: int | None = None) -> Tensor:
    size = call.elements if elements is None else elements
    return placed(torch.zeros(size, dtype=call.dtype), place)


def op(call: Call) -> Any:
    return getattr(dist.ReduceOp, call.op)


# The kinds of calls


def all_reduce(call: Call, place: Place) -> Started:
    tensor = placed(values(call, place.rank), place)
    work = dist.all_reduce(tensor, op(call), place.group, async_op=call.asynchronous)
    return Started([work], [(tensor, reduced(call, everyone(call, place)))])


def all_reduce_by_own(call: Call, place: Place) -> Started:
    tensor = placed(values(call, place.rank), place)
    work = backend.all_reduce(tensor, FARTHER, place.group, async_op=call.asynchronous)
    largest = reduce(torch.maximum, everyone(call, place))
    return Started([work], [(tensor, largest)])


def all_reduce_coalesced(call: Call, place: Place) -> Started:
    tensors = [placed(values(call, place.rank, part), place) for part in range(3)]
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = op(call)
    work = place.group.allreduce_coalesced(tensors, options)
    results = [reduced(call, everyone(call, place, part)) for part in range(3)]
    return Started([work], list(zip(tensors, results, strict=True)))


def reduce_to_root(call: Call, place: Place) -> Started:
    tensor = placed(values(call, place.rank), place)
    work = dist.reduce(
        tensor, op=op(call), group=place.group, async_op=call.asynchronous, group_dst=call.root
    )
    result = [(tensor, reduced(call, everyone(call, place)))]
    return Started([work], result if place.rank == call.root else [])


def broadcast(call: Call, place: Place) -> Started:
    tensor = placed(values(call, place.rank), place)
    work = dist.broadcast(
        tensor, group=place.group, async_op=call.asynchronous, group_src=call.root
    )
    return Started([work], [(tensor, values(call, call.root))])


def all_gather(call: Call, place: Place) -> Started:
    sizes = [call.elements + rank * (call.other == 0) for rank in range(place.ranks)]
    results = [values(call, rank, 0, size) for rank, size in enumerate(sizes)]
    outputs = [blank(call, place, size) for size in sizes]
    tensor = placed(results[place.rank], place)
    work = dist.all_gather(outputs, tensor, place.group, async_op=call.asynchronous)
    pairs = [(tensor, results[place.rank]), *zip(outputs, results, strict=True)]
    return Started([work], pairs)


def all_gather_in_place(call: Call, place: Place) -> Started:
    whole = backend.empty(place.ranks * call.elements, dtype=call.dtype)
    mine = whole[place.rank * call.elements :][: call.elements]
    mine.copy_(values(call, place.rank))
    work = dist.all_gather_single(whole, mine, place.group, async_op=call.asynchronous)
    return Started([work], [(whole, torch.cat(everyone(call, place)))])


def all_gather_single(call: Call, place: Place) -> Started:
    output = blank(call, place, place.ranks * call.elements)
    tensor = placed(values(call, place.rank), place)
    work = dist.all_gather_single(output, tensor, place.group, async_op=call.asynchronous)
    return Started([work], [(output, torch.cat(everyone(call, place)))])


def reduce_scatter(call: Call, place: Place) -> Started:
    given = [values(call, place.rank, part) for part in range(place.ranks)]
    inputs = [placed(tensor, place) for tensor in given]
    output = blank(call, place)
    work = dist.reduce_scatter(output, inputs, op(call), place.group, async_op=call.asynchronous)
    result = reduced(call, everyone(call, place, place.rank))
    return Started([work], [(output, result), *zip(inputs, given, strict=True)])


def reduce_scatter_single(call: Call, place: Place) -> Started:
    given = torch.cat([values(call, place.rank, part) for part in range(place.ranks)])
    tensor, output = placed(given, place), blank(call, place)
    work = dist.reduce_scatter_single(
        output, tensor, op(call), place.group, async_op=call.asynchronous
    )
    result = reduced(call, everyone(call, place, place.rank))
    return Started([work], [(output, result), (tensor, given)])


def gather(call: Call, place: Place) -> Started:
    given = values(call, place.rank)
    tensor = placed(given, place)
    outputs = [blank(call, place) for _ in range(place.ranks)]
    work = dist.gather(
        tensor,
        outputs if place.rank == call.root else None,
        group=place.group,
        async_op=call.asynchronous,
        group_dst=call.root,
    )
    results = list(zip(outputs, everyone(call, place), strict=True))
    return Started([work], [(tensor, given), *(results if place.rank == call.root else [])])


def scatter(call: Call, place: Place) -> Started:
    inputs = [placed(values(call, call.root, part), place) for part in range(place.ranks)]
    output = blank(call, place)
    work = dist.scatter(
        output,
        inputs if place.rank == call.root else None,
        group=place.group,
        async_op=call.asynchronous,
        group_src=call.root,
    )
    return Started([work], [(output, values(call, call.root, place.rank))])


def uneven(call: Call, source: int, to: int) -> int:
    return (call.elements * (1 + source) + 3 * to) // 2


def all_to_all(call: Call, place: Place) -> Started:
    sent = [uneven(call, place.rank, to) for to in range(place.ranks)]
    expected = [
        values(call, source, place.rank, uneven(call, source, place.rank))
        for source in range(place.ranks)
    ]
    given = [values(call, place.rank, to, size) for to, size in enumerate(sent)]
    inputs = [placed(tensor, place) for tensor in given]
    outputs = [blank(call, place, len(tensor)) for tensor in expected]
    work = dist.all_to_all(outputs, inputs, place.group, async_op=call.asynchronous)
    pairs = zip([*outputs, *inputs], [*expected, *given], strict=True)
    return Started([work], list(pairs))


def all_to_all_single(call: Call, place: Place) -> Started:
    sent = [uneven(call, place.rank, to) for to in range(place.ranks)]
    received = [uneven(call, source, place.rank) for source in range(place.ranks)]
    given = torch.cat([values(call, place.rank, to, size) for to, size in enumerate(sent)])
    expected = torch.cat(
        [values(call, source, place.rank, size) for source, size in enumerate(received)]
    )
    tensor, output = placed(given, place).reshape(-1), torch.zeros_like(expected)
    work = dist.all_to_all_single(
        output, tensor, received, sent, place.group, async_op=call.asynchronous
    )
    return Started([work], [(output, expected), (tensor, given)])


def message(call: Call, place: Place) -> Started:
    """From the root to another rank, which may take it from whoever sends."""
    target = (call.root + 1 + call.other) % place.ranks
    tag = call.number if call.other else 0
    if place.ranks == 1 or place.rank not in (call.root, target) or target == call.root:
        return Started([], [])
    if place.rank == call.root:
        tensor = placed(values(call, call.root), place)
        send = dist.isend if call.asynchronous else dist.send
        work = send(tensor, group=place.group, tag=tag, group_dst=target)
    else:
        tensor = blank(call, place)
        anyone = tag and place.own.random() < 0.5
        source = None if anyone else call.root
        receive = dist.irecv if call.asynchronous else dist.recv
        work = receive(tensor, group=place.group, tag=tag, group_src=source)
    return Started([work if call.asynchronous else None], [(tensor, values(call, call.root))])


def exchange(call: Call, place: Place) -> Started:
    """Every rank sends to the next and receives from the one before, all at once."""
    before, after = (place.rank - 1) % place.ranks, (place.rank + 1) % place.ranks
    if place.ranks == 1:
        return Started([], [])
    given = values(call, place.rank)
    tensor, output = placed(given, place), blank(call, place)
    operations = [
        dist.P2POp(dist.isend, tensor, group=place.group, tag=1, group_peer=after),
        dist.P2POp(dist.irecv, output, group=place.group, tag=1, group_peer=before),
    ]
    works = dist.batch_isend_irecv(operations)
    return Started(works, [(tensor, given), (output, values(call, before))])


def objects(call: Call, place: Place) -> Started:
    gathered: list[Any] = [None] * place.ranks
    dist.all_gather_object(gathered, (call.number, "x" * place.rank), place.group)
    assert gathered == [(call.number, "x" * rank) for rank in range(place.ranks)], f"{call}"
    told = [call.number, place.rank]
    dist.broadcast_object_list(told, group=place.group, group_src=call.root)
    assert told == [call.number, call.root], f"{call}"
    return Started([], [])


def barrier(call: Call, place: Place) -> Started:
    return Started([dist.barrier(place.group, async_op=call.asynchronous)], [])


REDUCING = (
    *(all_reduce, all_reduce_coalesced, reduce_to_root, reduce_scatter, reduce_scatter_single),
)
COPYING = (
    *(broadcast, all_gather, all_gather_in_place, all_gather_single, gather, scatter),
    *(all_to_all, all_to_all_single, message, exchange),
)
KINDS = {kind.__name__: kind for kind in (*REDUCING, *COPYING, all_reduce_by_own, objects, barrier)}


# Drawing them


def draw(seed: int, number: int, groups: list[tuple[int, ...]]) -> Call:
    """The call with that number, among groups of these ranks."""
    shared = random.Random(f"{seed}, call {number}")  # noqa: S311
    kind = shared.choice(list(KINDS.values()))
    group = shared.randrange(len(groups))
    op, dtype = "none", torch.float32
    if kind in REDUCING:
        op = shared.choice(list(REDUCED))
        dtype = shared.choice(REDUCED[op])
    elif kind in COPYING:
        dtype = shared.choice(COPIED)
    root, other = (shared.randrange(len(groups[group])) for _ in range(2))
    elements = _elements(shared, dtype.itemsize)
    asynchronous = shared.random() < 0.5
    return Call(number, kind.__name__, group, root, other, op, dtype, elements, asynchronous)


def _elements(shared: random.Random, itemsize: int) -> int:
    """Mostly few; some about the sizes at which the way of carrying them out changes."""
    chance = shared.random()
    if chance < 0.7:
        return shared.choice((0, 1, 2, 3, 17, 31, 32, 33, shared.randrange(5000)))
    if chance < 0.97:
        return (1 << shared.randrange(12, 19)) // itemsize + shared.randrange(-1, 2)
    return shared.randrange(1 << 18, 1 << 21) // itemsize


def start(call: Call, place: Place) -> Started:
    return KINDS[call.kind](call, place)
