"""When the last rank that each waited for came to a call."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.timeline.waits import Party, last_arrivals, with_waits

parts = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=20
)


@given(parts)
def test_a_rank_waits_for_the_last_that_came_before_it_left(found):
    call, start, took = np.array(found).T
    end = start + took
    expected = [
        max(s for c, s in zip(call, start, strict=True) if c == own and s <= left)
        for own, left in zip(call, end, strict=True)
    ]
    assert last_arrivals(call, start.astype(float), end.astype(float)).tolist() == expected


def test_no_calls_have_no_arrivals():
    nothing = np.empty(0)
    assert last_arrivals(np.empty(0, int), nothing, nothing).size == 0


def talking(*rows):
    """Rows of (rank, step, name, start, end) of communication."""
    return Timeline(
        source="measured",
        ranks=2,
        names=("a", "b"),
        streams=("comm",),
        intervals=np.array(
            [(r, 0, n, Phase.COMMUNICATION, k, s, e, 0, 0) for r, k, n, s, e in rows], INTERVAL
        ),
        messages=np.empty(0, MESSAGE),
    )


def test_the_nth_call_of_a_name_in_a_step_is_that_of_the_others():
    line = with_waits(
        talking(
            (0, 0, 0, 1, 5),
            (0, 0, 0, 6, 9),
            (0, 0, 1, 6, 8),
            (0, 1, 0, 20, 25),
            (1, 0, 1, 7, 8),
            (1, 0, 0, 4, 5),
            (1, 0, 0, 8, 9),
            (1, 1, 0, 11, 25),
        )
    )
    assert line.intervals["ready"].tolist() == [4, 8, 7, 20, 7, 4, 8, 20]


def test_a_timeline_without_calls_has_no_waits():
    assert with_waits(talking()).intervals.size == 0


def test_ranks_of_a_party_wait_for_each_other_alone():
    names = {"a": Party("together", np.array([0, 1])), "b": Party("message", np.array([0, 0]))}
    line = with_waits(
        talking((0, 0, 0, 1, 5), (1, 0, 0, 3, 5), (0, 0, 1, 6, 9), (1, 0, 1, 8, 9)),
        names.__getitem__,
    )
    assert line.intervals["ready"].tolist() == [1, 3, 8, 8]


def test_calls_of_two_names_may_be_one():
    both = Party("message", np.array([0, 0]))
    line = with_waits(talking((0, 0, 0, 1, 5), (1, 0, 1, 3, 5)), lambda _: both)
    assert line.intervals["ready"].tolist() == [3, 3]
