"""Crossovers: where one algorithm overtakes another, and where latency is half of a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptime.collectives import Schedule
from steptime.collectives.algorithm import Algorithm, algorithm_named, schedule
from steptime.collectives.crossover import SIZES, Curve, curve, fastest, rounded
from steptime.collectives.price import times
from steptime.collectives.selection import Selection, blocks_for

ALPHA, BETA = 5e-6, 1e-10


def straight(alpha: float, beta: float, sizes: tuple[int, ...] = SIZES) -> Curve:
    latency = np.full(len(sizes), float(alpha))
    return Curve(latency + beta * np.array(sizes), latency)


def priced(name: str, ranks: int) -> Curve:
    def made(algorithm: Algorithm, blocks: int) -> Schedule:
        return schedule(algorithm, ranks, blocks=blocks)

    return curve(
        algorithm_named("all_reduce", name), made, lambda one, n: times(one, n, ALPHA, BETA)
    )


def test_ring_overtakes_recursive_doubling_where_their_closed_forms_meet() -> None:
    """3 α + 3 n β against 14 α + 14/8 n β on 8 ranks."""
    curves = {name: priced(name, 8) for name in ("recursive_doubling", "ring")}
    selection, crossovers = fastest("all_reduce", curves)
    assert crossovers == [pytest.approx(11 * ALPHA / (1.25 * BETA), rel=1e-6)]
    assert str(selection) == "recursive_doubling:0-432KiB;ring:432KiB-max"
    assert Selection.parse(str(selection), "all_reduce", 8) == selection


def test_latency_is_half_where_the_bytes_take_as_long() -> None:
    assert priced("ring", 8).half(SIZES) == pytest.approx(14 * ALPHA / (1.75 * BETA), rel=1e-6)
    assert straight(0, 1e-9).half(SIZES) == 0
    assert straight(1, 0).half(SIZES) is None


def test_a_pipeline_has_the_blocks_that_the_backend_takes() -> None:
    found = priced("double_tree", 8)
    one = algorithm_named("all_reduce", "double_tree")
    for at in (0, len(SIZES) // 2, len(SIZES) - 1):
        made = schedule(one, 8, blocks=blocks_for(SIZES[at]))
        assert found.seconds[at] == times(made, [SIZES[at]], ALPHA, BETA)[0]
        assert found.latency[at] == times(made, [0], ALPHA, BETA)[0]


def test_one_that_wins_between_two_sizes_alone_is_found() -> None:
    sizes = (1000, 2000)
    curves = {"slow": straight(10, 0.02, sizes), "fast": straight(36, 0, sizes)}
    curves["between"] = straight(22.9, 0.0095, sizes)
    selection, crossovers = fastest("all_reduce", curves, sizes)
    assert crossovers == [pytest.approx(12.9 / 0.0105), pytest.approx(13.1 / 0.0095)]
    assert str(selection) == "slow:0-1216B;between:1216B-1376B;fast:1376B-max"


def test_of_equals_the_first_is_kept() -> None:
    curves = {"a": straight(1, 1e-6), "b": straight(1, 1e-6 * (1 + 1e-13))}
    assert str(fastest("all_reduce", curves)[0]) == "a:0-max"


def test_who_is_level_at_the_first_size_and_quicker_at_once_takes_over_there() -> None:
    sizes = (1024, 2048)
    curves = {"a": straight(1, 1 / 512, sizes), "b": straight(2, 1 / 1024, sizes)}
    selection, crossovers = fastest("all_reduce", curves, sizes)
    assert crossovers == [1024]
    assert str(selection) == "a:0-1KiB;b:1KiB-max"


@given(st.lists(st.tuples(st.floats(0, 1e-3), st.floats(1e-12, 1e-8)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_other_is_faster_than_the_selected(lines: list[tuple[float, float]]) -> None:
    curves = {str(number): straight(*line) for number, line in enumerate(lines)}
    selection, crossovers = fastest("all_reduce", curves)
    assert crossovers == sorted(crossovers)
    if len({rounded(size) for size in crossovers}) < len(crossovers):
        return  # too near each other for a range of their own
    names = [choice.algorithm for choice in selection.choices]
    for at, size in enumerate(SIZES):
        name = names[sum(crossover < size for crossover in crossovers)]
        least = min(one.seconds[at] for one in curves.values())
        assert curves[name].seconds[at] <= least * (1 + 1e-6)
