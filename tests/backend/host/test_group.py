"""Every collective, by dtype, size, place and number of ranks, against its definition."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.host.group import in_group
from steptime.backend import reduction
from steptime.backend.host import Call, HostGroup, Kind, empty
from steptime.backend.host.exchange import WINDOW_BYTES

pytestmark = pytest.mark.usefixtures("each_kernel")

_DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
)
_SLOT = 256 << 10  # on most machines; either side of it and its multiples is what matters
_FEW = (0, 1, 7, 1000)
_MANY = (WINDOW_BYTES // 4 - 1, WINDOW_BYTES // 4, _SLOT // 4, _SLOT // 4 + 1, 3 * _SLOT // 4 + 5)

_Make = Callable[[int, torch.dtype], Tensor]


def _plain(elements: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(elements, dtype=dtype)


def _shared(elements: int, dtype: torch.dtype) -> Tensor:
    return empty(elements, dtype=dtype)


def _values(elements: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Small whole numbers, other ones for each seed, whose sums every dtype holds exactly."""
    numbers = (torch.arange(elements) * 7 + seed * 3) % 3
    return numbers.to(torch.float32).to(dtype)


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def _sum(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    wide = torch.float64 if dtype.is_floating_point else dtype
    total = parts[0].to(wide)
    for part in parts[1:]:
        total = total + part.to(wide)
    return total.to(dtype)


def _filled(make: _Make, values: Tensor) -> Tensor:
    tensor = make(values.numel(), values.dtype)
    tensor.copy_(values)
    return tensor


def _all_collectives(group: HostGroup, make: _Make, elements: int, dtype: torch.dtype) -> None:
    ranks, me, root = group.ranks, group.rank, group.ranks - 1
    values = [_values(elements, dtype, rank) for rank in range(ranks)]
    table = [
        [_values(elements, dtype, 1 + rank * ranks + to) for to in range(ranks)]
        for rank in range(ranks)
    ]
    what = f"{elements} of {dtype}, {make.__name__}"

    def of(kind: Kind, root: int = -1, op: str = "") -> Call:
        return Call.of(kind, dtype, elements, root, op)

    tensor = _filled(make, values[me])
    group.all_reduce(of(Kind.ALL_REDUCE, op="sum"), tensor, reduction.SUM)
    assert _same(tensor, _sum(values, dtype)), f"all_reduce, {what}"

    tensor = _filled(make, values[me])
    group.reduce(of(Kind.REDUCE, root, "sum"), tensor, root, reduction.SUM)
    if me == root:
        assert _same(tensor, _sum(values, dtype)), f"reduce, {what}"

    tensor = _filled(make, values[me])
    group.broadcast(of(Kind.BROADCAST, root), tensor, root)
    assert _same(tensor, values[root]), f"broadcast, {what}"

    inputs = [_filled(make, part) for part in table[me]]
    outputs = [make(elements, dtype) for _ in range(ranks)]
    group.reduce_scatter(of(Kind.REDUCE_SCATTER, op="sum"), outputs[0], inputs, reduction.SUM)
    want = _sum([table[rank][me] for rank in range(ranks)], dtype)
    assert _same(outputs[0], want), f"reduce_scatter, {what}"

    group.all_gather(of(Kind.ALL_GATHER), outputs, inputs[0])
    assert all(_same(outputs[r], table[r][0]) for r in range(ranks)), f"all_gather, {what}"

    outputs = [make(elements, dtype) for _ in range(ranks)]
    group.gather(of(Kind.GATHER, root), outputs if me == root else None, inputs[0], root)
    if me == root:
        assert all(_same(outputs[r], table[r][0]) for r in range(ranks)), f"gather, {what}"

    group.scatter(of(Kind.SCATTER, root), outputs[0], inputs if me == root else None, root)
    assert _same(outputs[0], table[root][me]), f"scatter, {what}"

    group.all_to_all(Call.of(Kind.ALL_TO_ALL, dtype), outputs, inputs)
    assert all(_same(outputs[r], table[r][me]) for r in range(ranks)), f"all_to_all, {what}"


def _in_place(group: HostGroup, make: _Make, elements: int) -> None:
    """Outputs that are inputs, as flat parameters and their shards are."""
    ranks, me, dtype = group.ranks, group.rank, torch.float32
    flat = _filled(make, _values(elements * ranks, dtype, me))
    shards = flat.view(ranks, elements).unbind()
    group.all_gather(Call.of(Kind.ALL_GATHER, dtype, elements), shards, shards[me])
    for rank in range(ranks):
        want = _values(elements * ranks, dtype, rank).view(ranks, elements)[rank]
        assert torch.equal(shards[rank], want)

    flat.copy_(_values(elements * ranks, dtype, me))
    call = Call.of(Kind.REDUCE_SCATTER, dtype, elements, -1, "sum")
    group.reduce_scatter(call, shards[me], shards, reduction.SUM)
    every = [_values(elements * ranks, dtype, rank) for rank in range(ranks)]
    assert torch.equal(shards[me], _sum(every, dtype).view(ranks, elements)[me])

    # An output that the others' sums still need.
    flat.copy_(_values(elements * ranks, dtype, me))
    group.reduce_scatter(call, shards[(me + 1) % ranks], shards, reduction.SUM)
    assert torch.equal(shards[(me + 1) % ranks], _sum(every, dtype).view(ranks, elements)[me])

    flat.copy_(_values(elements * ranks, dtype, me))
    group.all_to_all(Call.of(Kind.ALL_TO_ALL, dtype), shards, shards)
    for rank in range(ranks):
        assert torch.equal(shards[rank], every[rank].view(ranks, elements)[me])


def _uneven(group: HostGroup, make: _Make, unit: int) -> None:
    """all_to_all where rank r sends r * unit + s elements to rank s."""
    ranks, me = group.ranks, group.rank
    sizes = [[r * unit + s for s in range(ranks)] for r in range(ranks)]
    inputs = [
        _filled(make, _values(sizes[me][to], torch.int16, me * ranks + to)) for to in range(ranks)
    ]
    outputs = [make(sizes[source][me], torch.int16) for source in range(ranks)]
    group.all_to_all(Call.of(Kind.ALL_TO_ALL, torch.int16), outputs, inputs)
    for source in range(ranks):
        want = _values(sizes[source][me], torch.int16, source * ranks + me)
        assert torch.equal(outputs[source], want)


def _some_in_the_arena(group: HostGroup) -> None:
    elements = WINDOW_BYTES
    tensor = _filled(_shared if group.rank else _plain, _values(elements, torch.int32, group.rank))
    call = Call.of(Kind.ALL_REDUCE, torch.int32, elements, -1, "sum")
    group.all_reduce(call, tensor, reduction.SUM)
    values = [_values(elements, torch.int32, rank) for rank in range(group.ranks)]
    assert torch.equal(tensor, _sum(values, torch.int32))


def _every_case(group: HostGroup) -> None:
    for make in (_plain, _shared):
        for elements, dtype in product(_FEW, _DTYPES):
            _all_collectives(group, make, elements, dtype)
        for elements in _MANY:
            _all_collectives(group, make, elements, torch.float32)
        _all_collectives(group, make, _MANY[-1], torch.bfloat16)
        _all_collectives(group, make, _MANY[-1], torch.complex128)
        for elements in (3, WINDOW_BYTES):
            _in_place(group, make, elements)
        for unit in (0, 5, WINDOW_BYTES):
            _uneven(group, make, unit)
    _some_in_the_arena(group)
    group.barrier(Call.of(Kind.BARRIER))


@pytest.mark.parametrize(
    "ranks", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 5))]
)
def test_every_collective_does_what_it_is_defined_to(ranks: int, tmp_path: Path) -> None:
    in_group(ranks, _every_case, tmp_path)


def _reduced(group: HostGroup) -> dict[str, list[bytes]]:
    """The bits of rounded sums, products and user's reductions of each size, as this rank has."""

    def weigh(a: Tensor, b: Tensor) -> Tensor:
        return a * 0.5 + b  # neither commutative nor associative

    ops = (reduction.SUM, reduction.AVG, reduction.PRODUCT, reduction.custom("weigh", weigh))
    bits: dict[str, list[bytes]] = {}
    for dtype, op in product((torch.float32, torch.bfloat16), ops):
        for elements, make in product((1, 100, 9000, *_MANY[-2:]), (_plain, _shared)):
            generator = torch.Generator().manual_seed(elements + group.rank)
            tensor = make(elements, dtype)
            tensor.copy_(torch.rand(elements, generator=generator) + 0.5)
            call = Call.of(Kind.ALL_REDUCE, dtype, elements, -1, op.name)
            group.all_reduce(call, tensor, op)
            key = f"{op.name} of {dtype}[{elements}]"
            bits.setdefault(key, []).append(tensor.view(torch.uint8).numpy().tobytes())
    return bits


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_rank_and_way_has_the_same_bits(ranks: int, tmp_path: Path) -> None:
    first, *others = in_group(ranks, _reduced, tmp_path)
    for key, (plain, shared) in first.items():
        assert plain == shared, key
        assert all(other[key] == [plain, shared] for other in others), key


def _bfloat16_sum(group: HostGroup) -> list[float]:
    tensor = torch.tensor([256.0 if group.rank == 0 else 1.0], dtype=torch.bfloat16)
    group.all_reduce(Call.of(Kind.ALL_REDUCE, torch.bfloat16, 1, -1, "sum"), tensor, reduction.SUM)
    return tensor.float().tolist()


def test_narrow_floats_are_rounded_once(tmp_path: Path) -> None:
    # In bfloat16, 256 + 1 is 256: rounding after each addition would lose every one of them.
    assert in_group(5, _bfloat16_sum, tmp_path) == [[260.0]] * 5
