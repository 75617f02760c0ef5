from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.timeline import EXPOSED, INTERVAL, MESSAGE, Phase, Timeline, phases_of_steps

STREAMS = ("step", "compute", "comm")


def timeline(*rows: tuple[int, str, Phase, float, float]) -> Timeline:
    """Rows of (rank, stream, phase, start, end); all steps are called s, all else x."""
    return Timeline(
        source="measured",
        ranks=1 + max(row[0] for row in rows),
        names=("s", "x"),
        streams=STREAMS,
        intervals=np.array(
            [
                (rank, STREAMS.index(stream), int(phase != Phase.STEP), phase, 0, start, end, 0, 0)
                for rank, stream, phase, start, end in rows
            ],
            dtype=INTERVAL,
        ),
        messages=np.empty(0, MESSAGE),
    )


def test_communication_behind_compute_costs_nothing():
    (step,) = phases_of_steps(
        timeline(
            (0, "step", Phase.STEP, 0.0, 10.0),
            (0, "compute", Phase.COMPUTE, 0.0, 6.0),
            (0, "comm", Phase.COMMUNICATION, 4.0, 8.0),
            (0, "compute", Phase.UPDATE, 8.0, 9.0),
        ),
        "s",
    )
    assert step["compute"] == 6
    assert step["exposed_comm"] == 2
    assert step["communication"] == 4
    assert step["update"] == 1
    assert step["other"] == 1


def test_a_wait_inside_compute_is_exposed_communication():
    (step,) = phases_of_steps(
        timeline(
            (0, "step", Phase.STEP, 0.0, 5.0),
            (0, "compute", Phase.COMPUTE, 0.0, 5.0),
            (0, "comm", Phase.COMMUNICATION, 1.0, 3.0),
            (0, "compute", Phase.WAIT, 2.0, 3.5),
        ),
        "s",
    )
    assert step["compute"] == 3.5
    assert step["exposed_comm"] == 1.5


def test_what_reaches_over_the_end_of_a_step_counts_in_the_next():
    steps = phases_of_steps(
        timeline(
            (0, "step", Phase.STEP, 0.0, 2.0),
            (0, "step", Phase.STEP, 3.0, 5.0),
            (0, "comm", Phase.COMMUNICATION, 1.0, 4.0),
        ),
        "s",
    )
    assert steps["exposed_comm"].tolist() == [1.0, 1.0]
    assert steps["other"].tolist() == [1.0, 1.0]


def test_ranks_are_judged_by_their_own_intervals():
    steps = phases_of_steps(
        timeline(
            (0, "step", Phase.STEP, 0.0, 2.0),
            (1, "step", Phase.STEP, 0.0, 2.0),
            (1, "compute", Phase.COMPUTE, 0.0, 2.0),
        ),
        "s",
    )
    assert steps["compute"].tolist() == [0.0, 2.0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Phase.COMPUTE, Phase.COMMUNICATION, Phase.UPDATE, Phase.WAIT]),
            st.floats(0, 20),
            st.floats(0, 20),
        ),
        max_size=12,
    )
)
def test_phases_add_up_to_the_step(intervals):
    rows = [(0, "compute", phase, min(a, b), max(a, b)) for phase, a, b in intervals]
    (step,) = phases_of_steps(timeline((0, "step", Phase.STEP, 5.0, 15.0), *rows), "s")
    parts = [step[field] for field in ("compute", "exposed_comm", "update", "other")]
    assert min(parts) >= -1e-9
    assert sum(parts) == pytest.approx(step["duration"])


def test_a_name_that_no_step_has_gives_no_phases():
    assert len(phases_of_steps(timeline((0, "step", Phase.STEP, 0.0, 1.0)), "t")) == 0


def exposed(bubble: float, *ranks: tuple[float, float, float]) -> list[list[float]]:
    """The parts of exposed communication of ranks that compute, wait and transfer so long."""
    rows, ready = [], []
    for rank, (work, wait, moved) in enumerate(ranks):
        end = work + wait + moved
        rows += [
            (rank, "step", Phase.STEP, 0.0, end),
            (rank, "compute", Phase.COMPUTE, 0.0, work),
            (rank, "comm", Phase.COMMUNICATION, work, end),
        ]
        ready += [0.0, 0.0, work + wait]
    line = timeline(*rows)
    line.intervals["ready"] = ready
    found = phases_of_steps(replace(line, bubble=bubble), "s")
    assert sum(found[part] for part in EXPOSED) == pytest.approx(found["exposed_comm"])
    return [found[part].tolist() for part in EXPOSED]


def test_what_a_rank_waits_for_one_that_works_longer_is_imbalance():
    assert exposed(0.0, (3, 2, 1), (5, 0, 1)) == [[1, 1], [0, 0], [2, 0], [0, 0]]


def test_what_nobody_works_longer_for_is_dependency():
    assert exposed(0.0, (4, 2, 1), (4, 0, 1)) == [[1, 1], [0, 0], [0, 0], [2, 0]]


def test_the_schedule_s_own_bubble_comes_before_imbalance():
    # The bubble is half of what the busiest rank works and moves: 0.5 · (5 + 1) s.
    assert exposed(0.5, (3, 6, 0), (5, 2, 1)) == [[0, 1], [3, 2], [2, 0], [1, 0]]


def test_rounding_is_no_reason():
    wait = 0.1 + 0.2 - 0.3
    assert exposed(0.0, (1, 1, 0), (1 + wait, 1, 0))[2] == [0, 0]


def test_only_what_nothing_hides_is_transfer():
    line = timeline(
        (0, "step", Phase.STEP, 0.0, 8.0),
        (0, "compute", Phase.COMPUTE, 0.0, 4.0),
        (0, "comm", Phase.COMMUNICATION, 1.0, 6.0),
        (0, "comm", Phase.COMMUNICATION, 5.0, 8.0),
    )
    line.intervals["ready"] = [0, 0, 2, 7]
    (step,) = phases_of_steps(line, "s")
    # From 4 to 6 the first call moves, from 6 to 7 the second waits, from 7 to 8 it moves.
    assert (step["transfer"], step["dependency"]) == (3, 1)
