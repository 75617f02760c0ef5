"""Who won, from what ranks brought home of their turns."""

import numpy as np
import pytest

from steptime.runs.turns import Block, Turns
from steptime.study.race import race_of


def turns(times: dict[str, list[float]]) -> Turns:
    """Blocks of two steps; ``times``: of each strategy, turn by turn."""
    blocks = [
        Block(strategy=name, turn=turn, steps=2, step_time_s=seconds, compute_s=0.5 * seconds)
        for name, of_turns in times.items()
        for turn, seconds in enumerate(of_turns)
    ]
    count = max(map(len, times.values()))
    return Turns(seed=0, steps=2 * count, lead_in=1, kept=True, cores=2, blocks=blocks)


def test_a_winner_is_named_where_every_turn_bears_it_out():
    slowly = [1.0, 2.0, 1.5, 3.0, 1.2]  # a machine whose speed wanders by more than they differ
    race = race_of(turns({"a": [1.1 * t for t in slowly], "b": slowly}))
    assert (race.winner, race.level_with) == ("b", [])
    assert race.ratios["a"].against_best == pytest.approx(1.1)
    assert race.ratios["b"].ci95 == (1, 1)
    assert race.turns.more_steps is None


def test_who_cannot_be_told_from_the_best_is_level_with_it():
    random = np.random.default_rng(1)
    near = {name: random.normal(1, 0.05, 6).tolist() for name in "ab"}
    race = race_of(turns(near | {"far": [2.0, 2.1, 2.0, 2.1, 2.0, 2.1]}))
    best = min("ab", key=lambda name: race.ratios[name].against_best)
    assert (race.winner, [best, *race.level_with]) == (None, sorted("ab", key=best.__ne__))
    low, high = race.ratios["far"].ci95
    assert 1 < low < race.ratios["far"].against_best < high
    assert race.turns.more_steps is not None and race.turns.more_steps > 0


def test_one_turn_names_nobody():
    race = race_of(turns({"a": [1.0], "b": [5.0]}))
    assert (race.winner, race.level_with, race.ratios) == (None, ["b"], {})


def test_one_strategy_has_no_rival():
    assert race_of(turns({"a": [1.0, 1.0]})).winner == "a"


def test_a_turn_that_not_all_have_is_left_out():
    race = race_of(turns({"a": [1.0, 1.0, 1.0], "b": [1.5, 1.5]}))
    assert race.winner == "a"
