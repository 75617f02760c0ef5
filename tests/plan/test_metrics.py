"""Errors, ranks, regret and balanced accuracy, on cases worked out by hand."""

import numpy as np
import pytest

from steptime.plan.metrics import (
    balanced_accuracy,
    errors,
    one_rate,
    over_cells,
    ranks,
    regret,
    spearman,
)


def test_an_error_is_above_zero_where_the_prediction_is_too_long():
    assert errors(np.array([1.1, 0.5]), np.array([1.0, 1.0])) == pytest.approx([0.1, -0.5])


def test_equal_values_share_the_mean_of_their_ranks():
    assert list(ranks(np.array([30.0, 10.0, 20.0, 20.0]))) == [3.0, 0.0, 1.5, 1.5]


def test_spearman_of_five_by_hand():
    """Differences of ranks 0, 1, 1, 0, 0: 1 - 6·2 / (5·24) = 0.9."""
    one = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert spearman(one, np.array([10.0, 30.0, 20.0, 40.0, 99.0])) == pytest.approx(0.9)
    assert spearman(one, -one) == pytest.approx(-1)


def test_spearman_of_too_few_or_of_equal_values_says_nothing():
    assert spearman(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])) is None


def test_regret_is_what_the_choice_loses_of_the_best():
    measured = np.array([80.0, 100.0, 90.0])
    assert regret(np.array([3.0, 1.0, 2.0]), measured) == pytest.approx(0.2)
    assert regret(np.array([1.0, 3.0, 2.0]), measured) == 0


def test_balanced_accuracy_weighs_both_kinds_alike():
    true = np.array([True] * 8 + [False] * 2)
    said = np.array([True] * 6 + [False] * 2 + [False, True])
    assert balanced_accuracy(said, true) == pytest.approx((6 / 8 + 1 / 2) / 2)
    assert balanced_accuracy(true, np.ones(10, bool)) is None


def test_the_rate_of_the_line_is_the_best_there_is():
    random = np.random.default_rng(5)
    work = random.uniform(1, 10, 41)
    measured = work / random.uniform(2, 4, 41)

    def mape(rate: float) -> float:
        return float(np.abs(errors(work / rate, measured)).mean())

    best = one_rate(work, measured)
    assert mape(best) <= min(mape(rate) for rate in np.linspace(1.5, 5, 2000)) + 1e-9


def test_cells_are_summed_up_by_mean_maximum_and_median():
    keys = ["a"] * 3 + ["b"] * 3 + ["alone"]
    predicted = np.array([3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 5.0])
    measured = np.array([3.0, 2.0, 1.0, 3.0, 2.0, 1.5, 5.0])
    cells = over_cells(keys, predicted, measured)
    assert cells.cells == 2
    assert (cells.regret_mean, cells.regret_max) == (0.25, 0.5)
    assert cells.spearman == pytest.approx(0)
