"""Who is the fastest of several that took turns."""

import numpy as np
import pytest

from steptime.ratios import CONFIDENCE, DECISION, WIDEST, standing


def times(ratios: list[float], turns: int, spread: float, seed: int = 0) -> np.ndarray:
    """Several that take these times on a machine that drifts: it is twice as slow at the end."""
    random = np.random.default_rng(seed)
    drift = np.linspace(1, 2, turns)[:, None]
    return drift * np.array(ratios) * np.exp(random.normal(0, spread, (turns, len(ratios))))


def test_who_is_ahead_by_more_than_chance_wins_however_the_machine_drifts():
    found = standing(times([1.3, 1.0, 1.2], turns=10, spread=0.02))
    assert (found.best, found.level()) == (1, [])
    assert found.against[0].center == pytest.approx(np.log(1.3), abs=0.04)
    assert (found.against[1].center, found.against[1].error) == (0, 0)


def test_who_is_as_fast_is_level_and_who_is_slower_is_not():
    found = standing(times([1.0, 1.001, 1.5], turns=10, spread=0.03))
    assert found.level() == [1 - found.best]


def test_of_equals_a_winner_is_named_no_more_often_than_the_decision_allows():
    trials = 600
    for several in (2, 4):
        won = sum(
            not standing(times([1.0] * several, 5, 0.05, seed)).level() for seed in range(trials)
        )
        assert won <= 3 * (1 - DECISION) * trials


def test_more_turns_are_said_to_tell_and_do():
    few = times([1.0, 1.03], turns=5, spread=0.03, seed=3)
    needed = standing(few).turns_to_tell()
    assert needed is not None and needed > 5
    gap = standing(few).against[1 - standing(few).best].center
    told = sum(
        not standing(times([1.0, float(np.exp(gap))], needed, 0.03, seed)).level()
        for seed in range(100)
    )
    assert told > 60


def test_of_times_that_are_the_same_no_turns_would_tell():
    assert standing(np.ones((5, 2))).turns_to_tell() is None


def test_a_difference_is_seen_where_turns_spread_less():
    assert standing(times([1.0, 1.0], 20, 0.01)).sees(0.05)
    assert not standing(times([1.0, 1.0], 8, 0.2)).sees(0.05)
    assert standing(times([1.0, 9.0], 20, 0.2)).sees(0.05)  # told already, however they spread


def test_one_turn_is_refused():
    with pytest.raises(ValueError, match="spread"):
        standing(np.ones((1, 3)))


def test_the_interval_of_two_turns_that_differ_much_ends_where_numbers_say_nothing():
    found = standing(np.array([[1.0, 1.0], [1.0, 1e30]]))
    assert found.ratio(1 - found.best, CONFIDENCE)[1] == pytest.approx((1 / WIDEST, WIDEST))
