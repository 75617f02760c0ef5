"""Schedules chosen by name carry out the collectives of a group, or are refused."""

from pathlib import Path
from typing import Any

import pytest

from backend.parity import CASES, Place
from ranks import on_ranks
from steptime.backend.selection import Options, select
from steptime.collectives import COLLECTIVES, algorithms
from steptime.errors import UsageError


def test_what_the_options_hold_goes_before_the_environment() -> None:
    environ = {"STEPTIME_ALL_REDUCE": "ring", "STEPTIME_BROADCAST": "flat", "OTHER": "x"}
    selection = select(Options({"all_reduce": "circulant"}), environ, 3)
    assert {name: s.algorithm(0) for name, s in selection.items()} == {
        "all_reduce": "circulant",
        "broadcast": "flat",
    }


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no collective 'all_reduces': did you mean all_reduce\?"):
        select(Options({"all_reduces": "ring"}), {}, 3)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    return on_ranks(3, _run_all, tmp_path_factory.mktemp("selection"))


def test_every_algorithm_that_serves_three_ranks_is_right(answers: list[dict[str, str]]) -> None:
    assert len(answers[0]) > 20
    for rank, found in enumerate(answers):
        wrong = {name: problem for name, problem in found.items() if problem}
        assert not wrong, (rank, wrong)


def test_an_unusable_choice_is_refused_by_every_rank_before_it_meets_the_others(
    tmp_path: Path,
) -> None:
    for message in on_ranks(3, _refused, tmp_path):
        assert "cannot serve 3 ranks" in message
        assert "pg_options" not in message


def _run_all() -> dict[str, str]:
    import torch.distributed as dist

    import steptime.backend  # noqa: F401
    from backend.test_parity import _attempt, _differs

    answers = {}
    for collective in COLLECTIVES:
        names = [n for n, a in algorithms(collective).items() if a.serves(3)]
        cases = [c for c in CASES.values() if _judges(c.name, collective)]
        for name in names:
            group: Any = dist.new_group(
                backend="steptime", pg_options=Options({collective: f"{name}:0-max"})
            )
            place = Place(group, dist.get_rank(), (0, 1, 2))
            problems = [_differs(name, c.expected(place), _attempt(c.run, place)) for c in cases]
            problems.append(_large(collective, group))
            answers[f"{collective} {name}"] = "; ".join(filter(None, problems))
            dist.destroy_process_group(group)
    return answers


def _large(collective: str, group: Any) -> str:
    """What is wrong with messages that fill the mailbox of a receiver several times."""
    import torch
    import torch.distributed as dist

    rank, elements = dist.get_rank(), 600_000
    vector = torch.arange(elements, dtype=torch.float64) + rank
    if collective == "all_reduce":
        dist.all_reduce(vector, group=group)
        right = torch.equal(vector, 3 * torch.arange(elements, dtype=torch.float64) + 3)
    elif collective == "all_to_all":
        result = torch.empty_like(vector)
        dist.all_to_all_single(result, vector, group=group)
        mine = torch.arange(elements, dtype=torch.float64).chunk(3)[rank]
        right = torch.equal(result, torch.cat([mine + other for other in range(3)]))
    else:
        return ""
    return "" if right else f"a large {collective} is wrong"


def _judges(case: str, collective: str) -> bool:
    """A few cases of each collective, on whole and on strange sizes."""
    kind, *rest = case.split("-")
    if collective == "barrier":
        return kind == "many_in_flight"
    wanted = {"float32", "bfloat16", "SUM", "AVG", "7x5", "40000", "0", "1", "holes", "in_place"}
    return kind.removesuffix("_single") == collective and set(rest) <= wanted


def _refused() -> str:
    import torch.distributed as dist

    import steptime.backend  # noqa: F401

    try:
        dist.new_group(backend="steptime", pg_options=Options({"all_gather": "recursive_doubling"}))
    except UsageError as error:
        return str(error)
    return "accepted"
