"""The kernel in C does what the Python beside it does, bit for bit."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from backend.bits import (
    ARITHMETIC,
    FLOATS,
    INTEGERS,
    UNSIGNED,
    any_bits,
    group_by,
    needs_c,
    placed,
    same,
)
from ranks import on_ranks
from steptime.backend.host import kernel
from steptime.backend.reduction import AVG, SUM, Reduction, custom
from steptime.errors import UsageError

# From whole, through slices, to several blocks of a slot, none of which ends with a line.
ELEMENTS = (1, 777, 20_011, 700_001)


@needs_c
@pytest.mark.parametrize(
    "ranks", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 5))]
)
def test_c_and_python_give_the_same_bits(ranks: int, tmp_path: Path) -> None:
    for wrong in on_ranks(ranks, _wrong, tmp_path):
        assert wrong == []


def _wrong() -> list[Any]:
    """The cases in which the two differ."""
    in_python, in_c = (group_by(name) for name in ("python", "c"))
    cases = [
        *product(FLOATS, ARITHMETIC),
        *product(INTEGERS, (*ARITHMETIC, "BAND", "BOR", "BXOR")),
        *product(UNSIGNED, ("SUM", "AVG", "MIN", "MAX")),
    ]
    found = []
    for (dtype, op), elements, arena in product(cases, ELEMENTS, (False, True)):
        if elements == ELEMENTS[-1] and dtype not in (*FLOATS, torch.int8):
            continue  # blocks do not depend on the type
        given = any_bits(dtype, elements)
        ours, theirs = placed(given, arena), given.clone()
        dist.all_reduce(theirs, getattr(dist.ReduceOp, op), in_python)
        dist.all_reduce(ours, getattr(dist.ReduceOp, op), in_c)
        if not same(ours, theirs):
            found.append((str(dtype), op, elements, arena))
    return found


@needs_c
@pytest.mark.parametrize("ranks", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_parts_go_where_they_belong_whatever_their_size_and_place(
    ranks: int, tmp_path: Path
) -> None:
    for wrong in on_ranks(ranks, _misplaced, tmp_path):
        assert wrong == []


def _misplaced() -> list[Any]:
    """Calls in C that do not do what the same calls do in Python."""
    in_python, in_c = (group_by(name) for name in ("python", "c"))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = []
    for elements, arena, dtype in product(
        (0, 1, 777, 20_011, 300_001), (False, True), (torch.float32, torch.bfloat16)
    ):
        given, wide = any_bits(dtype, elements), any_bits(dtype, ranks * elements)
        for name, call in _MOVES.items():
            ours, theirs = (placed(given, place) for place in (arena, False))
            whole, other = (placed(wide, place) for place in (arena, False))
            call(ours, whole, rank, in_c)
            call(theirs, other, rank, in_python)
            if not (same(ours, theirs) and same(whole, other)):
                found.append((name, elements, arena, str(dtype)))
    return found


def _in_list(one: torch.Tensor, whole: torch.Tensor, _: int, group: Any) -> None:
    """As ``reduce_scatter``, of parts that do not lie in the order of the ranks."""
    parts = list(whole.chunk(dist.get_world_size()))[::-1] if one.numel() else [one] * 3
    dist.reduce_scatter(one, parts[: dist.get_world_size()], group=group)


def _in_place(_: torch.Tensor, whole: torch.Tensor, rank: int, group: Any) -> None:
    """As ``reduce_scatter`` into the part of the input that becomes the output."""
    size = whole.numel() // dist.get_world_size()
    dist.reduce_scatter_single(whole[rank * size : (rank + 1) * size], whole, group=group)


def _gather_in_place(_: torch.Tensor, whole: torch.Tensor, rank: int, group: Any) -> None:
    """As ``all_gather`` from the part of the output that stays as it is."""
    size = whole.numel() // dist.get_world_size()
    dist.all_gather_single(whole, whole[rank * size : (rank + 1) * size], group=group)


def _exchange(_: torch.Tensor, whole: torch.Tensor, rank: int, group: Any) -> None:
    """all_to_all, then one in which one rank's parts are uneven and the others' not."""
    ranks = dist.get_world_size()
    given = whole.clone() if whole.numel() % 2 else placed(whole, True)
    dist.all_to_all_single(whole, given, group=group)
    if ranks < 3:
        return
    # Rows from each rank to each: those of rank 1 are even, and it gives no sizes.
    rows = torch.full((3, 3), 2)
    rows[0, 0], rows[0, 2], rows[2, 0], rows[2, 2] = 1, 3, 3, 1
    received, sent = rows[:, rank].tolist(), rows[rank].tolist()
    output, sizes = torch.empty(6, dtype=whole.dtype), () if rank == 1 else (received, sent)
    dist.all_to_all_single(output, whole.new_full((6,), rank), *sizes, group=group)
    right = [source for source in range(3) for _ in range(received[source])]
    whole[:6] = output.tolist() == right


_MOVES = {
    "all_to_all": _exchange,
    "broadcast": lambda one, _, __, group: dist.broadcast(one, 0, group),
    "all_gather": lambda one, whole, _, group: dist.all_gather_single(whole, one, group),
    "reduce_scatter": lambda one, whole, _, group: dist.reduce_scatter_single(
        one, whole, group=group
    ),
    "reduce_scatter of a list": _in_list,
    "reduce_scatter in place": _in_place,
    "all_gather in place": _gather_in_place,
}


@needs_c
def test_calls_that_only_python_serves_take_turns_with_those_in_c(tmp_path: Path) -> None:
    assert on_ranks(3, _mixed, tmp_path) == [[]] * 3


def _mixed() -> list[int]:
    import steptime.backend as backend

    group = group_by("c")
    farther = custom("farther", lambda a, b: torch.where(a.abs() < b.abs(), b, a))
    rank, wrong = dist.get_rank(), []
    for turn in range(60):
        size = (1, 5000, 90_000)[turn % 3]
        one = torch.full((size,), float(rank + turn))
        dist.all_reduce(one, group=group)
        other = torch.full((size,), (1.0, -4.0, 7.0)[rank])
        backend.all_reduce(other, farther, group)
        third = torch.full((size // 2 + 1,), float(rank))
        dist.broadcast(third, turn % 3, group)
        right = (one == 3 + 3 * turn).all() and (other == 7).all() and (third == turn % 3).all()
        if not right:
            wrong.append(turn)
    return wrong


@needs_c
def test_a_group_is_in_c_only_if_all_its_ranks_are(tmp_path: Path) -> None:
    assert on_ranks(2, _one_in_python, tmp_path) == [(False, [2.0] * 5), (False, [2.0] * 5)]


def _one_in_python() -> tuple[bool, list[float]]:
    group = group_by(("c", "python")[dist.get_rank()])
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    return group._engine.kernel is not None, tensor.tolist()


def test_the_environment_chooses_the_kernel() -> None:
    assert kernel.chosen({}) == kernel.is_built()
    assert not kernel.chosen({kernel.VARIABLE: "python"})
    with pytest.raises(UsageError, match="set it to c or to python"):
        kernel.chosen({kernel.VARIABLE: "rust"})


def test_without_a_compiler_python_serves_and_c_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel, "_kernel", None)
    kernel.tell_once.cache_clear()
    assert not kernel.chosen({})
    assert not kernel.chosen({})
    assert [record.message for record in caplog.records] == [
        "the backend steptime works in Python, more slowly: its kernel in C was not built; install "
        "gcc and Python's headers, then steptime again, or set STEPTIME_KERNEL=python"
    ]
    with pytest.raises(UsageError, match="was not built"):
        kernel.chosen({kernel.VARIABLE: "c"})


@needs_c
def test_what_the_kernel_cannot_reduce_it_has_no_code_for() -> None:
    assert kernel.code(SUM, torch.float32) is not None
    assert kernel.code(AVG, torch.complex64) is None
    assert kernel.code(Reduction("sum", torch.sub), torch.float32) is None
