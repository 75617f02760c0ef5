"""Which axis a step waits for: hand-made steps, to the second."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.runs.axis_time import axis_times
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, phases_of_steps
from steptime.timeline.by_axis import axis_in_name, times_by_axis

NAMES = ("s", "work", "all_reduce tensor", "reduce_scatter data", "receive pipeline")
WORK, TENSOR, DATA, PIPELINE = (
    (1, Phase.COMPUTE),
    (2, Phase.COMMUNICATION),
    (3, Phase.COMMUNICATION),
    (4, Phase.COMMUNICATION),
)
WAIT, STEP = (1, Phase.WAIT), (0, Phase.STEP)


def timeline(*rows):
    """Rows of (rank, step, what, start, end)."""
    return Timeline(
        source="measured",
        ranks=2,
        names=NAMES,
        streams=("any",),
        intervals=np.array(
            [(r, 0, name, phase, n, b, e, 0, 0) for r, n, (name, phase), b, e in rows], INTERVAL
        ),
        messages=np.empty(0, MESSAGE),
    )


def by_axis(*rows, first_step=0):
    """By the name of each axis: (under way, exposed, hidden), of one step alone."""
    found = times_by_axis(timeline(*rows), "s", axis_in_name, first_step)
    columns = zip(found.under_way[0], found.exposed[0], found.hidden[0], strict=True)
    return dict(zip(found.axes, columns, strict=True))


def test_a_call_is_exposed_where_nothing_computes_and_hidden_behind_what_does():
    assert by_axis(
        (0, 0, STEP, 0, 10),
        (0, 0, WORK, 0, 4),
        (0, 0, DATA, 2, 7),
        (0, 0, WORK, 9, 10),
    ) == {"data": (5, 3, 2)}


def test_a_rank_that_waits_within_computing_waits_for_the_call_that_ends_then():
    assert by_axis(
        (0, 0, STEP, 0, 10),
        (0, 0, WORK, 0, 8),
        (0, 0, PIPELINE, 1, 9),  # asked for early, and needed late
        (0, 0, WAIT, 3, 5),
        (0, 0, TENSOR, 3, 5),
    ) == {"pipeline": (8, 1, 5), "tensor": (2, 2, 0)}


def test_what_ends_while_another_call_is_awaited_takes_nothing_of_that_wait():
    assert by_axis(
        (0, 0, STEP, 0, 10),
        (0, 0, WORK, 0, 2),
        (0, 0, DATA, 1, 4),
        (0, 0, PIPELINE, 2, 7),
        (0, 0, WORK, 7, 10),
    ) == {"data": (3, 0, 1), "pipeline": (5, 5, 0)}


def test_calls_one_after_the_other_are_each_their_own():
    assert by_axis(
        (0, 0, STEP, 0, 10),
        (0, 0, TENSOR, 0, 3),
        (0, 0, DATA, 3, 5),
        (0, 0, WORK, 5, 10),
    ) == {"tensor": (3, 3, 0), "data": (2, 2, 0)}


def test_where_all_calls_outlast_the_wait_it_is_that_of_the_first_to_end():
    assert by_axis(
        (0, 0, STEP, 0, 10),
        (0, 0, DATA, 0, 8),
        (0, 0, PIPELINE, 0, 6),
        (0, 0, WORK, 4, 10),
    ) == {"data": (8, 0, 4), "pipeline": (6, 4, 2)}


def test_steps_before_the_first_that_counts_are_left_out_and_their_calls_reach_over():
    rows = [(0, 0, STEP, 0, 4), (0, 0, DATA, 3, 6), (0, 1, STEP, 4, 8), (0, 1, WORK, 5, 8)]
    assert by_axis(*rows, first_step=1) == {"data": (2, 1, 1)}


def test_the_median_step_is_divided_and_the_slowest_rank_told():
    line = timeline(
        (0, 0, STEP, 0, 10), (0, 0, TENSOR, 0, 2), (0, 0, WORK, 2, 10),
        (1, 0, STEP, 0, 10), (1, 0, TENSOR, 0, 6), (1, 0, WORK, 4, 10),
    )  # fmt: skip
    (tensor,) = axis_times(times_by_axis(line, "s", axis_in_name), 20.0)
    assert tensor.axis == "tensor"
    assert (tensor.under_way_s, tensor.most_under_way_s) == (8, 12)
    assert (tensor.exposed_s, tensor.most_exposed_s) == (6, 8)
    assert (tensor.hidden_s, tensor.most_hidden_s) == (2, 4)


def test_a_step_without_calls_has_no_axes():
    assert by_axis((0, 0, STEP, 0, 1)) == {}
    assert axis_times(times_by_axis(timeline(), "s", axis_in_name), 1.0) == []


times = st.integers(0, 20)
spans = st.tuples(times, times).map(sorted)
some = st.lists(st.tuples(st.sampled_from([WORK, TENSOR, DATA, PIPELINE]), spans), max_size=12)


@given(some)
def test_exposed_times_add_up_to_the_exposed_communication(rows):
    line = timeline((0, 0, STEP, 0, 20), *((0, 0, what, begin, end) for what, (begin, end) in rows))
    found = times_by_axis(line, "s", axis_in_name)
    (step,) = phases_of_steps(line, "s")
    assert found.exposed.sum() == pytest.approx(step["exposed_comm"])
    assert (found.exposed + found.hidden <= found.under_way + 1e-9).all()


@given(some, spans)
def test_what_is_waited_for_without_a_call_is_of_no_axis(rows, wait):
    line = timeline(
        (0, 0, STEP, 0, 20),
        (0, 0, WAIT, *wait),
        *((0, 0, what, begin, end) for what, (begin, end) in rows),
    )
    calls = [span for what, span in rows if what != WORK]
    alone = sum(
        wait[0] <= second < wait[1] and not any(b <= second < e for b, e in calls)
        for second in range(20)
    )
    found = times_by_axis(line, "s", axis_in_name)
    (step,) = phases_of_steps(line, "s")
    assert found.exposed.sum() + alone == pytest.approx(step["exposed_comm"])
