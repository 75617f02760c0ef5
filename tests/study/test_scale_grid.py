"""The grid of a scaling study: what it holds, and what is refused before anything runs."""

import pytest

from steptime.errors import UsageError
from steptime.study.scale_options import Point, asked_kind, make_grid, parse_counts

BOTH = ("replicated", "overlapped")


def grid(baseline=None, kind="strong"):
    return make_grid((1, 2), (1, 4), BOTH, kind, baseline)


def test_counts_are_in_order_and_each_once():
    assert parse_counts("4, 1,2,4", "ranks") == (1, 2, 4)


@pytest.mark.parametrize("text", ["", "1,,2", "0,1", "-1", "two", "1.5", "1-4"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(UsageError, match=r"--ranks has .*: write numbers from 1 up, as 1,2,4"):
        parse_counts(text, "ranks")


def test_every_number_of_ranks_meets_every_number_of_threads():
    assert [str(point) for point in grid().points] == ["1x1", "1x4", "2x1", "2x4"]
    assert grid().points[-1].workers == 8


def test_one_rank_runs_one_strategy_since_all_do_the_same():
    assert grid().strategies_at(Point(1, 4)) == BOTH[:1]
    assert grid().strategies_at(Point(2, 1)) == BOTH


@pytest.mark.parametrize(
    ("text", "point", "strategy"),
    [
        (None, Point(1, 1), "replicated"),
        ("1x4", Point(1, 4), "replicated"),
        ("2×1", Point(2, 1), "replicated"),
        (" 2x4:overlapped ", Point(2, 4), "overlapped"),
    ],
)
def test_the_baseline_is_a_cell_of_the_grid(text, point, strategy):
    assert grid(text).baseline == (point, strategy)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3x1", "--baseline 3x1 is not in the grid, which has 1x1, 1x4, 2x1, 2x4: name one"),
        ("1x1:overlapped", "--baseline 1x1:overlapped is not in the grid: at 1x1 it has replicat"),
        ("2x1:server", "at 2x1 it has replicated, overlapped"),
        ("first", "--baseline is 'first': write RANKSxTHREADS"),
    ],
)
def test_a_baseline_that_is_not_there_is_refused(text, sentence):
    with pytest.raises(UsageError, match=sentence):
        grid(text)


def test_the_batch_grows_with_the_ranks_in_weak_scaling_alone():
    point = Point(2, 4)
    assert grid().batch_at(point, 8) == 8
    assert grid(kind="weak").batch_at(point, 8) == 16


def test_what_stays_the_same_is_said_once():
    assert asked_kind(strong=False, weak=False, simulated=False) == "strong"
    assert asked_kind(strong=False, weak=False, simulated=True) == "weak"
    assert asked_kind(strong=True, weak=False, simulated=True) == "strong"
    assert asked_kind(strong=False, weak=True, simulated=False) == "weak"
    with pytest.raises(UsageError, match="leave one out"):
        asked_kind(strong=True, weak=True, simulated=False)
