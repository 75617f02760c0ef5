"""Calls with roots, and of uneven parts: C does to any tensors what Python does, bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

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
from steptime.errors import SteptimeError

RANKS = 3
BITWISE = ("BAND", "BOR", "BXOR")
REDUCED = (
    *product(FLOATS, ARITHMETIC),
    *product(INTEGERS, (*ARITHMETIC, *BITWISE)),
    *product(UNSIGNED, ("SUM", "AVG", "MIN", "MAX")),
)


@dataclass(frozen=True)
class Case:
    """A call, and for each rank where its tensors lie; ``parts[i][j]``: elements from i to j."""

    kind: str
    dtype: torch.dtype
    op: str
    elements: int
    parts: list[list[int]]
    root: int
    arenas: list[bool]
    in_place: bool

    def placed(self, elements: int, seed: int = 0) -> torch.Tensor:
        return placed(any_bits(self.dtype, elements, seed), self.arenas[dist.get_rank()])


def reduce(case: Case, group: Any) -> list[torch.Tensor]:
    tensor = case.placed(case.elements)
    dist.reduce(tensor, case.root, getattr(dist.ReduceOp, case.op), group)
    return [tensor]


def reduce_scatter(case: Case, group: Any) -> list[torch.Tensor]:
    """Of parts that lie anywhere, or in the order of the ranks, or of which one is the output."""
    if case.elements % 2:
        parts = [case.placed(case.elements, seed) for seed in range(RANKS)]
    else:
        parts = list(case.placed(RANKS * case.elements).split(max(case.elements, 1)))
        parts += [case.placed(0)] * (RANKS - len(parts))
    output = parts[dist.get_rank()] if case.in_place else case.placed(case.elements, 7)
    dist.reduce_scatter(output, parts, getattr(dist.ReduceOp, case.op), group)
    return [output, *parts]


def reduce_scatter_uneven(case: Case, group: Any) -> list[torch.Tensor]:
    sizes = case.parts[0]
    parts = [case.placed(size, seed) for seed, size in enumerate(sizes)]
    output = case.placed(sizes[dist.get_rank()], 7)
    dist.reduce_scatter(output, parts, getattr(dist.ReduceOp, case.op), group)
    return [output, *parts]


def gather(case: Case, group: Any) -> list[torch.Tensor]:
    tensor, here = case.placed(case.elements), dist.get_rank() == case.root
    outputs = [case.placed(case.elements, 5) for _ in range(RANKS)]
    if case.in_place:
        outputs[case.root] = tensor
    dist.gather(tensor, outputs if here else None, case.root, group)
    return [tensor, *outputs]


def scatter(case: Case, group: Any) -> list[torch.Tensor]:
    inputs = [case.placed(case.elements, seed) for seed in range(RANKS)]
    output = inputs[case.root] if case.in_place else case.placed(case.elements, 5)
    dist.scatter(output, inputs if dist.get_rank() == case.root else None, case.root, group)
    return [output, *inputs]


def all_gather(case: Case, group: Any) -> list[torch.Tensor]:
    """Of tensors of any sizes."""
    sizes = case.parts[0]
    outputs = [case.placed(size, 3) for size in sizes]
    tensor = case.placed(sizes[dist.get_rank()])
    if case.in_place:
        tensor = outputs[dist.get_rank()]
    dist.all_gather(outputs, tensor, group)
    return [tensor, *outputs]


def all_to_all(case: Case, group: Any) -> list[torch.Tensor]:
    """Of lists, all sizes as they come; in place where those of each pair are the same."""
    here, sizes = dist.get_rank(), case.parts
    if case.in_place:
        sizes = [[case.parts[min(i, j)][max(i, j)] for j in range(RANKS)] for i in range(RANKS)]
    inputs = [case.placed(size, seed) for seed, size in enumerate(sizes[here])]
    outputs = inputs if case.in_place else [case.placed(row[here], 9) for row in sizes]
    dist.all_to_all(outputs, inputs, group)
    return [*outputs, *inputs]


def all_to_all_single(case: Case, group: Any) -> list[torch.Tensor]:
    here = dist.get_rank()
    sent, received = case.parts[here], [row[here] for row in case.parts]
    tensor, output = case.placed(sum(sent)), case.placed(sum(received), 9)
    dist.all_to_all_single(output, tensor, received, sent, group)
    return [output, tensor]


KINDS: dict[str, Callable[[Case, Any], list[torch.Tensor]]] = {
    call.__name__: call
    for call in (
        *(reduce, reduce_scatter, reduce_scatter_uneven, gather, scatter, all_gather),
        *(all_to_all, all_to_all_single),
    )
}

# About those at which the way changes, and several blocks of a slot.
SIZES = st.sampled_from((0, 1, 31, 777, 5_000, 20_011, 90_001)) | st.integers(0, 3_000)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype, op = draw(st.sampled_from(REDUCED))
    row = st.lists(SIZES, min_size=RANKS, max_size=RANKS)
    return Case(
        kind=draw(st.sampled_from(tuple(KINDS))),
        dtype=dtype,
        op=op,
        elements=draw(SIZES | st.just(400_001)),
        parts=draw(st.lists(row, min_size=RANKS, max_size=RANKS)),
        root=draw(st.integers(0, RANKS - 1)),
        arenas=draw(st.lists(st.booleans(), min_size=RANKS, max_size=RANKS) | st.just([True] * 3)),
        in_place=draw(st.booleans()),
    )


@pytest.mark.slow
@needs_c
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.large_base_example],  # ranks are started for each list
)
@given(st.lists(cases(), min_size=120, max_size=120))
def test_c_and_python_do_the_same(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Case]
) -> None:
    for wrong in on_ranks(RANKS, _wrong, tmp_path_factory.mktemp("parity"), drawn):
        assert wrong == []


def _wrong(drawn: list[Case]) -> list[str]:
    in_python, in_c = (group_by(name) for name in ("python", "c"))
    found = []
    for number, case in enumerate(drawn):
        call = KINDS[case.kind]
        pairs = zip(call(case, in_c), call(case, in_python), strict=True)
        if not all(same(ours, theirs) for ours, theirs in pairs):
            found.append(f"case {number}: {case}")
    return found


@needs_c
def test_sizes_that_differ_are_told_on_all_ranks(tmp_path: Path) -> None:
    for said in on_ranks(RANKS, _unequal, tmp_path):
        assert said == (
            "in all_to_all of float32, call number 1 rank 1 sends 5 elements to rank 2, which "
            "expects 4"
        )


def _unequal() -> str:
    group, here = group_by("c"), dist.get_rank()
    sent, received = [3, 4, 4 + (here == 1)], [3, 3, 3] if here == 0 else [4, 4, 4]
    try:
        dist.all_to_all_single(
            torch.empty(sum(received)), torch.ones(sum(sent)), received, sent, group
        )
    except SteptimeError as error:
        return str(error)
    return "nothing"


@needs_c
@pytest.mark.parametrize("kind", KINDS)
def test_they_work_in_c(kind: str, tmp_path: Path) -> None:
    assert on_ranks(RANKS, _engines_steps, tmp_path, kind) == [[]] * RANKS


def _engines_steps(kind: str) -> list[str]:
    """The collectives that Python carried out in a group in C."""
    group, done = group_by("c"), []
    case = Case(kind, torch.float32, "SUM", 4_000, [[7, 8, 9]] * RANKS, 1, [True] * RANKS, False)
    group._engine._run = lambda call, *_: done.append(str(call))
    KINDS[kind](case, group)
    return done
