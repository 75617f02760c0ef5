import numpy as np
import pytest

from steptime.measure.contest import Contest
from steptime.measure.tune import select


def contest(size: int, times: dict[str, float], spread: float = 0.01, turns: int = 10) -> Contest:
    """Algorithms that take these times, on a machine that spreads them; the same at each call."""
    random = np.random.default_rng([size, turns])
    seconds = np.array(list(times.values())) * np.exp(random.normal(0, spread, (turns, len(times))))
    orders = np.argsort(random.random(seconds.shape), axis=1)
    return Contest(size, list(times), orders, seconds)


def contests(spread: float = 0.01, **times: list[float]) -> list[Contest]:
    """Contests at 1 KiB, 4 KiB, 16 KiB …; a list of times for each name."""
    rows = zip(*times.values(), strict=True)
    return [
        contest(1024 * 4**at, dict(zip(times, row, strict=True)), spread)
        for at, row in enumerate(rows)
    ]


def test_one_that_is_clearly_faster_wins_with_an_interval_above_1_for_the_other():
    found = contest(1024, {"ring": 1.0, "flat": 1.2})
    assert (found.winner, found.level) == ("ring", [])
    ratio, (low, high) = found.ratio(1)
    assert 1 < low < ratio < high
    assert found.record()["ratios"]["flat"] == {"against_best": ratio, "ci99": [low, high]}


def test_what_noise_would_reverse_is_level_and_nobody_wins():
    random = np.random.default_rng(5)
    noisy = np.exp(random.normal(0, 0.1, (10, 2))) * [1.0, 1.02]
    bests = set()
    for half in (noisy[:5], noisy[5:]):
        found = Contest(1024, ["ring", "flat"], np.zeros((5, 2), int), half)
        bests.add(found.best)
        assert found.winner is None
        assert found.level == [1 - found.best]
        low, high = found.ratio(1 - found.best)[1]
        assert low < 1 < high
    assert bests == {0, 1}, "each half has another best"


def test_one_turn_tells_nothing_unless_there_is_one_algorithm():
    found = contest(64, {"ring": 1.0, "flat": 9.0}, turns=1)
    assert (found.winner, found.level, found.ratio(1)) == (None, [1], None)
    assert contest(64, {"ring": 1.0}, turns=1).winner == "ring"


def test_each_range_goes_to_its_fastest_and_ends_half_way():
    found = contests(ring=[9, 8, 2, 1], flat=[1, 2, 8, 9])
    assert str(select("all_reduce", found)) == "flat:0-8KiB;ring:8KiB-max"


def test_the_level_ones_do_not_alternate_however_far_apart_they_seem():
    found = contests(spread=0.5, ring=[1.0, 1.3, 1.0, 1.3], flat=[1.3, 1.0, 1.3, 1.0])
    assert all(one.level for one in found)
    assert str(select("all_reduce", found)) in ("ring:0-max", "flat:0-max")


def test_where_several_are_level_the_one_of_the_neighbouring_size_is_kept():
    found = contests(ring=[1.0, 1.0, 5.0], flat=[1.0, 5.0, 1.0], tree=[1.0, 9.0, 9.0])
    assert len(found[0].level) == 2
    assert str(select("all_reduce", found)) == "ring:0-8KiB;flat:8KiB-max"


def test_a_small_gain_that_is_told_changes_the_algorithm():
    found = contests(spread=0.005, ring=[1, 1.05, 1], flat=[2, 1, 2])
    assert str(select("all_reduce", found)) == "ring:0-2KiB;flat:2KiB-8KiB;ring:8KiB-max"


@pytest.mark.parametrize("turns", [1, 10])
def test_one_size_alone_is_for_all(turns):
    found = [contest(1024, {"flat": 2.0, "binomial": 1.0}, turns=turns)]
    assert str(select("broadcast", found)) == "binomial:0-max"
