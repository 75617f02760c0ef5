import numpy as np
import pytest

from steptime.dtypes import DTYPES
from steptime.measure.exact import REDUCED, ExactData, Segment
from steptime.measure.operation import OPERATIONS, REDUCTIONS

LONG = 200_000  # more than three periods


def data(dtype="float32", reduction="sum", ranks=5, op="all_reduce", count=LONG, trial=0):
    return ExactData(OPERATIONS[op], DTYPES[dtype], reduction, ranks, 0, count, trial)


def numbers(of, origin, first=0, count=LONG):
    return np.concatenate([n for _, n in of.blocks([Segment(origin, first, count)])])


@pytest.mark.parametrize("ranks", [1, 3, 32, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["sum", "product"])
def test_every_partial_result_in_every_order_is_exact(dtype, reduction, ranks):
    of = data(dtype, reduction, ranks, count=1000)
    inputs = [numbers(of, rank, count=1000) for rank in range(ranks)]
    whole = np.prod(inputs, axis=0) if reduction == "product" else np.sum(inputs, axis=0)
    # All inputs are at least 0 for a sum and 1 for a product, so no partial result is larger.
    if reduction == "product":
        exponents = np.log2(whole)
        assert (exponents == np.round(exponents)).all()
        assert exponents.max() <= DTYPES[dtype].exponent
        assert min(map(np.min, inputs)) >= 1
    else:
        assert whole.max() <= DTYPES[dtype].largest
        assert min(map(np.min, inputs)) >= 0
    assert (numbers(of, REDUCED, count=1000) == whole).all()
    assert whole.min() > 0, "a result that nobody wrote, which is 0, must be wrong"


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_expected_result_is_the_reduction_of_the_inputs(reduction):
    of = data("float64", reduction)
    inputs = np.stack([numbers(of, rank) for rank in range(5)])
    function = {"avg": np.mean, "product": np.prod}.get(reduction, getattr(np, reduction, None))
    assert (numbers(of, REDUCED) == function(inputs, axis=0)).all()


def test_data_differ_between_ranks_indices_periods_and_trials():
    of = data("float16")
    own = numbers(of, 0)
    period = 65521
    for other in (
        numbers(of, 1),
        np.roll(own, 1),
        np.roll(own, LONG // 5),
        numbers(data("float16", trial=1), 0),
    ):
        assert np.mean(own == other) < 0.05
    assert np.mean(own[:period] == own[period : 2 * period]) < 0.05


def test_a_part_of_the_data_is_that_part_of_the_whole():
    of = data()
    assert (numbers(of, 2, 65_000, 70_000) == numbers(of, 2)[65_000:135_000]).all()


def test_wrong_counts_every_difference_and_lets_an_average_be_rounded():
    expected = np.array([1.0, 2.0, 3.0])
    assert data().wrong(expected + np.array([0, 1e-9, np.nan]), expected) == 2
    average = data(reduction="avg")
    ulp = DTYPES["float32"].epsilon
    assert average.wrong(expected * (1 + np.array([0, 2 * ulp, 3 * ulp])), expected) == 1
    assert average.wrong(np.full(3, np.nan), expected) == 3
