"""Calls of torch.distributed that every backend must answer alike, and what the answer is.

A case runs on one rank of a group and returns the tensors that it filled. ``expected`` is the same
by definition, computed from what the other ranks hold: every tensor here is a function of the rank
that made it, and of small whole numbers, so that sums are exact in any order.
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
MOVED = (
    *FLOATS,
    *INTEGERS,
    *COMPLEX,
    torch.bool,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


@dataclass(frozen=True)
class Case:
    """``run(place)`` makes a call and returns what it filled; ``expected`` says what that is.

    Not ``by_gloo``: gloo gives another answer, which is wrong.
    """

    name: str
    run: Callable[["Place"], list[torch.Tensor]]
    expected: Callable[["Place"], list[torch.Tensor]]
    by_gloo: bool = True


@dataclass(frozen=True)
class Place:
    """A rank in a group: ``rank`` and ``ranks`` count within it, ``members`` globally."""

    group: Any
    rank: int
    members: tuple[int, ...]

    @property
    def ranks(self) -> int:
        return len(self.members)


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """What rank ``rank`` holds: 0, 1 or 2 everywhere, imaginary parts included."""
    index = torch.arange(math.prod(shape)).reshape(shape)
    whole = (index * (3 + rank) + 5 * rank + salt) % 3
    if dtype.is_complex:
        return torch.complex(whole.double(), ((whole + index) % 3).double()).to(dtype)
    return (whole % 2 if dtype == torch.bool else whole).to(dtype)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements as a view with holes, transposed where it has two dims."""
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    view = wide[..., 0]
    view.copy_(tensor)
    return view.transpose(0, 1).contiguous().transpose(0, 1) if view.dim() == 2 else view


def finish(work: Any, asynchronous: bool) -> None:
    assert (work is not None) == asynchronous
    if asynchronous:
        work.wait()
        assert work.is_completed()


_DEFINITIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": operator.add,
    "PRODUCT": operator.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
}


def reduced(op: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """By definition; bool and 8-bit floats through a dtype that has the arithmetic."""
    dtype = tensors[0].dtype
    wide = torch.float64 if dtype.is_floating_point else dtype
    if op == "AVG":
        total = reduced("SUM", [t.to(wide) for t in tensors])
        if dtype.is_floating_point or dtype.is_complex:
            return (total / len(tensors)).to(dtype)
        return total.div(len(tensors), rounding_mode="trunc")
    return functools.reduce(_DEFINITIONS[op], [t.to(wide) for t in tensors]).to(dtype)


def _all(place: Place, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    return [values(rank, shape, dtype) for rank in range(place.ranks)]


def _all_reduce(op: str, dtype: torch.dtype, shape: Any, *, sync: bool, holes: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        tensor = values(place.rank, shape, dtype)
        tensor = strided(tensor) if holes else tensor
        work = dist.all_reduce(tensor, getattr(dist.ReduceOp, op), place.group, async_op=not sync)
        finish(work, not sync)
        return [tensor]

    name = (
        f"all_reduce-{op}-{_short(dtype)}-{_size(shape)}{'-holes' * holes}{'-async' * (not sync)}"
    )
    # gloo reads the memory behind a vector as if it had no holes.
    return Case(
        name,
        run,
        lambda place: [reduced(op, _all(place, shape, dtype))],
        by_gloo=not holes or len(shape) == 2,
    )


def _broadcast(dtype: torch.dtype, shape: Any, *, sync: bool, holes: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        tensor = values(place.rank, shape, dtype)
        tensor = strided(tensor) if holes else tensor
        root = place.members[-1]
        finish(dist.broadcast(tensor, root, place.group, async_op=not sync), not sync)
        return [tensor]

    name = f"broadcast-{_short(dtype)}-{_size(shape)}{'-holes' * holes}{'-async' * (not sync)}"
    return Case(name, run, lambda place: [values(place.ranks - 1, shape, dtype)])


def _reduce(op: str, dtype: torch.dtype, shape: Any, *, sync: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        tensor = values(place.rank, shape, dtype)
        reduce_op = getattr(dist.ReduceOp, op)
        finish(
            dist.reduce(tensor, place.members[1], reduce_op, place.group, async_op=not sync),
            not sync,
        )
        return [tensor] if place.rank == 1 else []

    def expected(place: Place) -> list[torch.Tensor]:
        return [reduced(op, _all(place, shape, dtype))] if place.rank == 1 else []

    return Case(f"reduce-{op}-{_short(dtype)}-{_size(shape)}{'-async' * (not sync)}", run, expected)


def _all_gather(dtype: torch.dtype, shape: Any, *, sync: bool, holes: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        outputs = [torch.zeros(shape, dtype=dtype) for _ in range(place.ranks)]
        outputs = [strided(t) for t in outputs] if holes else outputs
        tensor = values(place.rank, shape, dtype)
        tensor = strided(tensor) if holes else tensor
        finish(dist.all_gather(outputs, tensor, place.group, async_op=not sync), not sync)
        return outputs

    name = f"all_gather-{_short(dtype)}-{_size(shape)}{'-holes' * holes}{'-async' * (not sync)}"
    return Case(name, run, lambda place: _all(place, shape, dtype))


def _all_gather_in_place(dtype: torch.dtype) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        whole = torch.zeros(place.ranks * 6, dtype=dtype)
        views = list(whole.chunk(place.ranks))
        views[place.rank].copy_(values(place.rank, (6,), dtype))
        dist.all_gather(views, views[place.rank], place.group)
        again = whole.clone()
        dist.all_gather_single(whole, views[place.rank], place.group)
        return [whole, again]

    def expected(place: Place) -> list[torch.Tensor]:
        return [torch.cat(_all(place, (6,), dtype))] * 2

    return Case(f"all_gather-in_place-{_short(dtype)}", run, expected)


def _all_gather_single(dtype: torch.dtype, shape: Any, *, sync: bool, holes: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        output = torch.zeros(place.ranks * shape[0], *shape[1:], dtype=dtype)
        output = strided(output) if holes else output
        tensor = values(place.rank, shape, dtype)
        finish(dist.all_gather_single(output, tensor, place.group, async_op=not sync), not sync)
        return [output]

    name = f"all_gather_single-{_short(dtype)}-{_size(shape)}{'-holes' * holes}"
    name += "-async" * (not sync)
    return Case(name, run, lambda place: [torch.cat(_all(place, shape, dtype))])


def _reduce_scatter(op: str, dtype: torch.dtype, *, single: bool, sync: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        whole = values(place.rank, (place.ranks * 5,), dtype)
        output = torch.zeros(5, dtype=dtype)
        reduce_op = getattr(dist.ReduceOp, op)
        if single:
            work = dist.reduce_scatter_single(
                output, whole, reduce_op, place.group, async_op=not sync
            )
        else:
            parts = [strided(part) for part in whole.chunk(place.ranks)]
            work = dist.reduce_scatter(output, parts, reduce_op, place.group, async_op=not sync)
        finish(work, not sync)
        return [output]

    def expected(place: Place) -> list[torch.Tensor]:
        whole = reduced(op, _all(place, (place.ranks * 5,), dtype))
        return [whole.chunk(place.ranks)[place.rank]]

    kind = "reduce_scatter_single" if single else "reduce_scatter"
    return Case(f"{kind}-{op}-{_short(dtype)}{'-async' * (not sync)}", run, expected)


def _uneven_all_gather(place: Place) -> list[torch.Tensor]:
    outputs = [torch.zeros(rank) for rank in range(place.ranks)]
    dist.all_gather(outputs, values(place.rank, (place.rank,), torch.float32), place.group)
    return outputs


def _expected_uneven_all_gather(place: Place) -> list[torch.Tensor]:
    return [values(rank, (rank,), torch.float32) for rank in range(place.ranks)]


def _uneven_reduce_scatter(place: Place) -> list[torch.Tensor]:
    inputs = [values(place.rank, (n,), torch.float32) for n in range(place.ranks)]
    output = torch.zeros(place.rank)
    dist.reduce_scatter(output, inputs, group=place.group)
    return [output]


def _expected_uneven_reduce_scatter(place: Place) -> list[torch.Tensor]:
    return [reduced("SUM", _all(place, (place.rank,), torch.float32))]


def _gather(dtype: torch.dtype, shape: Any, *, sync: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        root = place.members[1]
        outputs = [torch.zeros(shape, dtype=dtype) for _ in range(place.ranks)]
        given = outputs if place.rank == 1 else None
        tensor = values(place.rank, shape, dtype)
        finish(dist.gather(tensor, given, root, place.group, async_op=not sync), not sync)
        return given or []

    def expected(place: Place) -> list[torch.Tensor]:
        return _all(place, shape, dtype) if place.rank == 1 else []

    return Case(f"gather-{_short(dtype)}-{_size(shape)}{'-async' * (not sync)}", run, expected)


def _scatter(dtype: torch.dtype, shape: Any, *, sync: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        output = torch.zeros(shape, dtype=dtype)
        given = _all(place, shape, dtype) if place.rank == 1 else None
        root = place.members[1]
        finish(dist.scatter(output, given, root, place.group, async_op=not sync), not sync)
        return [output]

    def expected(place: Place) -> list[torch.Tensor]:
        return [values(place.rank, shape, dtype)]

    return Case(f"scatter-{_short(dtype)}-{_size(shape)}{'-async' * (not sync)}", run, expected)


def _pair(source: int, to: int) -> int:
    """How many rows ``source`` sends to ``to`` where all differ; none to some."""
    return (2 * source + to) % 3


def _all_to_all(dtype: torch.dtype, *, sync: bool) -> Case:
    def run(place: Place) -> list[torch.Tensor]:
        me = range(place.ranks)
        inputs = [values(place.rank, (_pair(place.rank, to),), dtype, to) for to in me]
        outputs = [torch.zeros(_pair(source, place.rank), dtype=dtype) for source in me]
        finish(dist.all_to_all(outputs, inputs, place.group, async_op=not sync), not sync)
        return outputs

    def expected(place: Place) -> list[torch.Tensor]:
        return [
            values(source, (_pair(source, place.rank),), dtype, place.rank)
            for source in range(place.ranks)
        ]

    return Case(f"all_to_all-{_short(dtype)}{'-async' * (not sync)}", run, expected)


def _all_to_all_single(dtype: torch.dtype, *, uneven: bool, sync: bool) -> Case:
    def rows(source: int, to: int) -> int:
        return _pair(source, to) if uneven else 2

    def run(place: Place) -> list[torch.Tensor]:
        sent = [rows(place.rank, to) for to in range(place.ranks)]
        received = [rows(source, place.rank) for source in range(place.ranks)]
        parts = [values(place.rank, (n, 3), dtype, to) for to, n in enumerate(sent)]
        output = torch.zeros(sum(received), 3, dtype=dtype)
        splits = (received, sent) if uneven else (None, None)
        work = dist.all_to_all_single(
            output, torch.cat(parts), *splits, group=place.group, async_op=not sync
        )
        finish(work, not sync)
        return [output]

    def expected(place: Place) -> list[torch.Tensor]:
        sources = range(place.ranks)
        parts = [values(s, (rows(s, place.rank), 3), dtype, place.rank) for s in sources]
        return [torch.cat(parts)]

    name = f"all_to_all_single-{_short(dtype)}{'-uneven' * uneven}{'-async' * (not sync)}"
    return Case(name, run, expected)


def _message(dtype: torch.dtype, elements: int) -> Case:
    """Round a ring: every rank sends first, receives from before it, then the same by tag."""

    def run(place: Place) -> list[torch.Tensor]:
        to = place.members[(place.rank + 1) % place.ranks]
        source = place.members[(place.rank - 1) % place.ranks]
        first, second = (values(place.rank, (elements,), dtype, salt) for salt in (0, 1))
        landing = [torch.zeros(elements, dtype=dtype) for _ in range(2)]
        works = [
            dist.isend(first, to, place.group, tag=7),
            dist.isend(second, to, place.group, tag=8),
            dist.irecv(landing[1], source, place.group, tag=8),
            dist.irecv(landing[0], source, place.group, tag=7),
        ]
        for work in works:
            work.wait()
        return landing

    def expected(place: Place) -> list[torch.Tensor]:
        before = (place.rank - 1) % place.ranks
        return [values(before, (elements,), dtype, salt) for salt in (0, 1)]

    return Case(f"isend_irecv-{_short(dtype)}-{elements}", run, expected)


def _blocking_messages(place: Place) -> list[torch.Tensor]:
    """Rank 0 gets what each other sends, in order from each, from whichever comes first."""
    if place.rank:
        for i in range(3):
            dist.send(torch.tensor([place.rank, i]), place.members[0], place.group, tag=3)
        return []
    received: list[list[int]] = []
    for _ in range(3 * (place.ranks - 1)):
        landing = torch.zeros(2, dtype=torch.int64)
        source = dist.recv(landing, None, place.group, tag=3)
        assert source == place.members[int(landing[0])]
        received.append(landing.tolist())
    each = [[i for r, i in received if r == rank] for rank in range(1, place.ranks)]
    return [torch.tensor(each)]


def _batched_messages(place: Place) -> list[torch.Tensor]:
    to = place.members[(place.rank + 1) % place.ranks]
    source = place.members[(place.rank - 1) % place.ranks]
    landing = torch.zeros(4)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, landing, source, place.group),
            dist.P2POp(dist.isend, values(place.rank, (4,), torch.float32), to, place.group),
        ]
    )
    for work in works:
        work.wait()
    return [landing]


def _objects(place: Place) -> list[torch.Tensor]:
    mine = {"rank": place.rank, "text": "x" * place.rank}
    everyone: list[Any] = [None] * place.ranks
    dist.all_gather_object(everyone, mine, place.group)
    at_root = [None] * place.ranks if place.rank == 1 else None
    dist.gather_object(mine, at_root, place.members[1], place.group)
    told = [mine if place.rank == 0 else None]
    dist.broadcast_object_list(told, place.members[0], place.group)
    dealt: list[Any] = [None]
    dist.scatter_object_list(dealt, everyone, place.members[0], place.group)
    answer = [o["rank"] for o in everyone] + [told[0]["rank"], dealt[0]["rank"]]
    return [torch.tensor(answer + [o["rank"] for o in at_root or []])]


def _coalesced(place: Place) -> list[torch.Tensor]:
    reduced_, scattered = (
        [values(place.rank, (n,), torch.float32, n) for n in (place.ranks, 4 * place.ranks)]
        for _ in range(2)
    )
    with dist._coalescing_manager(place.group):
        for tensor in reduced_:
            dist.all_reduce(tensor, group=place.group)
    gathered = [torch.zeros(place.ranks * len(t)) for t in reduced_]
    with dist._coalescing_manager(place.group, async_ops=True) as works:
        for output, tensor in zip(gathered, scattered, strict=True):
            dist.all_gather_single(output, tensor, place.group)
    works.wait()
    parts = [torch.zeros(len(t) // place.ranks) for t in scattered]
    with dist._coalescing_manager(place.group):
        for part, tensor in zip(parts, scattered, strict=True):
            dist.reduce_scatter_single(part, tensor, group=place.group)
    return [*reduced_, *gathered, *parts]


def _all_gather_coalesced(count: int, *, sync: bool) -> Case:
    """``outputs[rank][tensor]``; with as many tensors as ranks, the transposed fits as well."""
    shapes = [(2, 1 + n % 2) for n in range(count)]

    def tensors(rank: int) -> list[torch.Tensor]:
        return [values(rank, shape, torch.float32, n) for n, shape in enumerate(shapes)]

    def run(place: Place) -> list[torch.Tensor]:
        outputs = [[torch.zeros(shape) for shape in shapes] for _ in range(place.ranks)]
        begun = dist.all_gather_coalesced(
            outputs, tensors(place.rank), place.group, async_op=not sync
        )
        if not sync:  # torch returns the future of this call's Work
            begun.wait()
        return [output for landing in outputs for output in landing]

    def expected(place: Place) -> list[torch.Tensor]:
        return [tensor for rank in range(place.ranks) for tensor in tensors(rank)]

    return Case(f"all_gather_coalesced-{count}{'-async' * (not sync)}", run, expected)


def _sparse_of(rank: int, entries: int) -> torch.Tensor:
    """A 5 by 3 by 2 tensor with ``entries`` entries of (2,), some at the same place."""
    places = torch.tensor([[(rank + n) % 4, n % 3] for n in range(entries)]).reshape(-1, 2)
    return torch.sparse_coo_tensor(places.T, values(rank, (entries, 2), torch.float32), (5, 3, 2))


def _sparse(place: Place) -> list[torch.Tensor]:
    tensors = [_sparse_of(place.rank, entries) for entries in (0, 1, 13, 2 * place.rank)]
    for number, tensor in enumerate(tensors):
        finish(dist.all_reduce(tensor, group=place.group, async_op=number == 1), number == 1)
    return [tensor.to_dense() for tensor in tensors]


def _expected_sparse(place: Place) -> list[torch.Tensor]:
    dense = [
        [_sparse_of(rank, entries).to_dense() for entries in (0, 1, 13, 2 * rank)]
        for rank in range(place.ranks)
    ]
    return [reduced("SUM", list(each)) for each in zip(*dense, strict=True)]


def _many_in_flight(place: Place) -> list[torch.Tensor]:
    """Thirty calls begun before the first is waited for, several of them on the same tensor."""
    shared = torch.ones(33)
    tensors = [values(place.rank, (n,), torch.float32) for n in range(20)]
    works = [dist.all_reduce(t, group=place.group, async_op=True) for t in tensors]
    works += [dist.all_reduce(shared, group=place.group, async_op=True) for _ in range(3)]
    works.append(dist.broadcast(shared, place.members[0], place.group, async_op=True))
    works.append(dist.barrier(place.group, async_op=True))
    for work in reversed(works):
        work.wait()
    dist.barrier(place.group)
    return [*tensors, shared]


def _future(place: Place) -> list[torch.Tensor]:
    tensor = values(place.rank, (9,), torch.float32)
    future = dist.all_reduce(tensor, group=place.group, async_op=True).get_future()
    return [future.then(lambda done: done.value()[0] * 2).wait()]


def _graph_tensors(place: Place) -> list[torch.Tensor]:
    """Tensors that autograd follows, that belong to inference, that are lazy conjugates."""
    parameter = torch.nn.Parameter(values(place.rank, (4,), torch.float32))
    dist.broadcast(parameter, place.members[0], place.group)
    weight = torch.ones(4, requires_grad=True)
    product = weight * 2
    saved = product * product
    dist.all_reduce(product.detach(), group=place.group)
    with torch.inference_mode():
        inference = values(place.rank, (4,), torch.float32)
        dist.all_reduce(inference, group=place.group, async_op=True).wait()
    outputs = [torch.zeros(3, dtype=torch.complex64) for _ in range(place.ranks)]
    conjugate = values(place.rank, (3,), torch.complex64).conj()
    dist.all_gather(outputs, conjugate.resolve_conj(), group=place.group)
    expanded = torch.tensor([float(place.rank)]).expand(5)
    landing = [torch.zeros(5) for _ in range(place.ranks)]
    dist.all_gather(landing, expanded.contiguous(), group=place.group)
    saved.sum().backward()
    return [parameter.data, inference.clone(), *outputs, *landing]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


SHAPES = ((0,), (), (1,), (7, 5), (40000,))


def _cases() -> list[Case]:
    cases = []
    for sync in (True, False):
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            dtypes = (*FLOATS, *INTEGERS) if sync else (torch.float32,)
            cases += [_all_reduce(op, d, (7, 5), sync=sync, holes=False) for d in dtypes]
        cases += [_all_reduce("SUM", d, (6,), sync=sync, holes=False) for d in COMPLEX]
        cases += [_all_reduce("SUM", torch.bfloat16, s, sync=sync, holes=True) for s in SHAPES[1:]]
        for shape in SHAPES:
            cases.append(_all_reduce("SUM", torch.float32, shape, sync=sync, holes=False))
            cases.append(_broadcast(torch.float32, shape, sync=sync, holes=False))
            cases.append(_all_gather(torch.float32, shape, sync=sync, holes=False))
            cases.append(_gather(torch.float32, shape, sync=sync))
            cases.append(_scatter(torch.float32, shape, sync=sync))
            cases.append(_reduce("SUM", torch.float32, shape, sync=sync))
        cases.append(_broadcast(torch.int32, (7, 5), sync=sync, holes=True))
        cases.append(_all_gather(torch.float64, (7, 5), sync=sync, holes=True))
        cases.append(_all_gather_single(torch.float32, (3, 4), sync=sync, holes=True))
        cases.append(_all_to_all_single(torch.float32, uneven=True, sync=sync))
    cases += [
        _all_reduce(op, d, (7, 5), sync=True, holes=False)
        for op in ("BAND", "BOR", "BXOR")
        for d in (*INTEGERS, torch.bool)
    ]
    cases += [
        _all_reduce(op, torch.bool, (9,), sync=True, holes=False)
        for op in ("SUM", "PRODUCT", "MIN", "MAX")
    ]
    cases += [
        _all_reduce(op, torch.float8_e4m3fn, (9,), sync=True, holes=False)
        for op in ("SUM", "PRODUCT")
    ]
    cases += [_reduce(op, torch.int64, (40000,), sync=True) for op in ("MAX", "AVG", "PRODUCT")]
    for dtype in MOVED:
        cases.append(_broadcast(dtype, (11,), sync=True, holes=False))
        cases.append(_all_gather(dtype, (11,), sync=True, holes=False))
        cases.append(_all_gather_single(dtype, (11,), sync=False, holes=False))
        cases.append(_all_gather_in_place(dtype))
        cases.append(_gather(dtype, (11,), sync=True))
        cases.append(_scatter(dtype, (11,), sync=True))
        cases.append(_all_to_all(dtype, sync=True))
        cases.append(_all_to_all_single(dtype, uneven=False, sync=True))
        cases.append(_message(dtype, 5))
    for dtype in (*FLOATS, *INTEGERS):
        for single in (True, False):
            cases += [
                _reduce_scatter(op, dtype, single=single, sync=single)
                for op in ("SUM", "MIN", "AVG")
            ]
    cases += [_message(torch.float32, n) for n in (0, 1, 1 << 20)]
    cases.append(Case("recv-any_source", _blocking_messages, _expected_blocking))
    cases.append(Case("batch_isend_irecv", _batched_messages, _expected_batched))
    cases.append(Case("objects", _objects, _expected_objects))
    cases.append(Case("coalesced", _coalesced, _expected_coalesced))
    cases += [_all_gather_coalesced(n, sync=sync) for n in (1, 2, 3, 4) for sync in (True, False)]
    cases.append(Case("all_reduce-sparse", _sparse, _expected_sparse))
    # gloo asks for equal sizes, or takes them for equal.
    uneven = (_uneven_all_gather, _expected_uneven_all_gather)
    cases.append(Case("all_gather-uneven", *uneven, by_gloo=False))
    uneven = (_uneven_reduce_scatter, _expected_uneven_reduce_scatter)
    cases.append(Case("reduce_scatter-uneven", *uneven, by_gloo=False))
    # gloo carries out calls that are in flight at once in any order, even on the same tensor.
    cases.append(Case("many_in_flight", _many_in_flight, _expected_many, by_gloo=False))
    cases.append(Case("future", _future, _expected_future))
    cases.append(Case("graph_tensors", _graph_tensors, _expected_graph))
    return cases


def _expected_blocking(place: Place) -> list[torch.Tensor]:
    return [] if place.rank else [torch.tensor([[0, 1, 2]] * (place.ranks - 1))]


def _expected_batched(place: Place) -> list[torch.Tensor]:
    return [values((place.rank - 1) % place.ranks, (4,), torch.float32)]


def _expected_objects(place: Place) -> list[torch.Tensor]:
    everyone = list(range(place.ranks))
    return [torch.tensor([*everyone, 0, place.rank, *(everyone if place.rank == 1 else [])])]


def _expected_coalesced(place: Place) -> list[torch.Tensor]:
    def held(n: int) -> list[torch.Tensor]:
        return [values(rank, (n,), torch.float32, n) for rank in range(place.ranks)]

    sizes = (place.ranks, 4 * place.ranks)
    sums = [sum(held(n), torch.zeros(n)) for n in sizes]
    shares = [whole.chunk(place.ranks)[place.rank] for whole in sums]
    return [*sums, *(torch.cat(held(n)) for n in sizes), *shares]


def _expected_many(place: Place) -> list[torch.Tensor]:
    sums = [reduced("SUM", _all(place, (n,), torch.float32)) for n in range(20)]
    return [*sums, torch.full((33,), float(place.ranks**3))]


def _expected_future(place: Place) -> list[torch.Tensor]:
    return [reduced("SUM", _all(place, (9,), torch.float32)) * 2]


def _expected_graph(place: Place) -> list[torch.Tensor]:
    return [
        values(0, (4,), torch.float32),
        reduced("SUM", _all(place, (4,), torch.float32)),
        *(t.conj().resolve_conj() for t in _all(place, (3,), torch.complex64)),
        *(torch.full((5,), float(rank)) for rank in range(place.ranks)),
    ]


CASES = {case.name: case for case in _cases()}
