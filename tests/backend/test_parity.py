"""The backend steptime answers as gloo does and, where gloo cannot, as the definition."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from backend.parity import CASES, Case, Place
from ranks import on_ranks

RANKS = 4
GROUPS = {"world": (0, 1, 2, 3), "three": (0, 1, 3), "two": (1, 2)}


@pytest.fixture(scope="module")
def answers(
    each_kernel: str, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[tuple[str, str], str]]:
    """For each rank, what was wrong in each group and case."""
    return on_ranks(RANKS, _run_all, tmp_path_factory.mktemp(f"parity-{each_kernel}"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("group", GROUPS)
def test_answers_as_gloo_and_the_definition(
    answers: list[dict[tuple[str, str], str]], group: str, case: str
) -> None:
    found = {rank: answers[rank][group, case] for rank in GROUPS[group]}
    assert not any(found.values()), found


def _run_all() -> dict[tuple[str, str], str]:
    import steptime.backend  # noqa: F401

    answers = {}
    for name, members in GROUPS.items():
        ours = dist.new_group(members, backend="steptime")
        theirs = dist.new_group(members, backend="gloo")
        if dist.get_rank() not in members:
            continue
        rank = members.index(dist.get_rank())
        for case in CASES.values():
            answers[name, case.name] = _compare(
                case, Place(ours, rank, members), Place(theirs, rank, members)
            )
    return answers


def _compare(case: Case, ours: Place, theirs: Place) -> str:
    """What is wrong, or nothing."""
    expected = case.expected(ours)
    problem = _differs("steptime", expected, _attempt(case.run, ours))
    if not problem and case.by_gloo:
        # Where gloo refuses, the definition alone is the judge.
        reference = _attempt(case.run, theirs)
        if not isinstance(reference, Exception):
            problem = _differs("gloo", expected, reference)
    return problem


def _attempt(run: Callable[[Place], Any], place: Place) -> Any:
    try:
        return run(place)
    except Exception as error:
        return error


def _differs(backend: str, expected: list[torch.Tensor], found: Any) -> str:
    if isinstance(found, Exception):
        return f"{backend}: {type(found).__name__}: {found}"
    if len(found) != len(expected):
        return f"{backend}: {len(found)} tensors, not {len(expected)}"
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{backend}: {one.dtype}{list(one.shape)}, not {other.dtype}{list(other.shape)}"
        if not torch.equal(_bits(one), _bits(other)):
            return f"{backend}: {one}, not {other}"
    return ""


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).view(-1).view(torch.uint8)
