"""A recording by the clock of its GPU, from marks that are written by hand."""

import numpy as np

from steptime.record.device_times import device_times
from steptime.record.events import ASYNC, MARK, Kind, Time
from steptime.record.rows import EVENT

MAIN, SIDE = 0, 7


def test_what_has_no_mark_is_put_between_its_neighbours_that_have_one() -> None:
    events = rows(event(Kind.BACKWARD, 100, ended=200), event(Kind.CALL, 150, 160, 170))
    marks = marked((0, Time.ISSUED, MAIN, 1_100), (0, Time.ENDED, MAIN, 3_100))

    found = device_times(events, marks)

    assert found["issued"].tolist() == [1_100, 2_100]
    assert found["ended"].tolist() == [3_100, 2_500]
    assert found["wait_begin"].tolist() == [0, 0]


def test_without_marks_the_script_s_own_clock_counts() -> None:
    events = rows(event(Kind.BACKWARD, 100, ended=200))

    assert device_times(events, marked()) is events


def test_who_waits_goes_on_when_the_stream_does() -> None:
    events = rows(
        event(Kind.CALL, 100, 110, 130, wait_begin=120, wait_end=130, flags=ASYNC),
        event(Kind.OPTIMIZER, 200, ended=210),
    )
    marks = marked(
        (0, Time.ISSUED, MAIN, 1_000),
        (0, Time.WAIT_BEGIN, MAIN, 1_500),
        (0, Time.WAIT_END, MAIN, 1_900),
        (1, Time.ISSUED, MAIN, 2_000),
    )

    call = device_times(events, marks)[0]

    assert (call["issued"], call["returned"]) == (1_000, 1_000)
    assert (call["wait_begin"], call["wait_end"], call["ended"]) == (1_500, 1_900, 1_900)


def test_a_call_on_another_stream_blocks_nobody_and_ends_there() -> None:
    events = rows(
        event(Kind.BACKWARD, 100, ended=300),
        event(Kind.CALL, 200, 210, 210, wait_begin=200, wait_end=210),
    )
    marks = marked(
        (0, Time.ISSUED, MAIN, 1_000),
        (0, Time.ENDED, MAIN, 3_000),
        (1, Time.ISSUED, SIDE, 1_900),
        (1, Time.RETURNED, SIDE, 2_700),
    )

    call = device_times(events, marks)[1]

    assert (call["issued"], call["ended"], call["wait_end"]) == (2_000, 2_700, 0)
    assert call["flags"] == ASYNC


def test_what_the_reducer_waits_for_ends_with_its_backward() -> None:
    events = rows(
        event(Kind.BACKWARD, 100, ended=300),
        event(Kind.CALL, 200, 210, flags=ASYNC),
        event(Kind.CALL, 400, 410, flags=ASYNC),
    )
    marks = marked(
        (0, Time.ISSUED, MAIN, 1_000), (1, Time.ISSUED, MAIN, 2_500), (0, Time.ENDED, MAIN, 3_000)
    )

    found = device_times(events, marks)

    assert found["ended"].tolist() == [3_000, 3_000, 0]
    assert found["returned"][1] == 2_500


def test_marks_of_events_that_are_not_there_are_left_out() -> None:
    events = rows(event(Kind.BACKWARD, 100, ended=200))
    marks = marked((0, Time.ISSUED, MAIN, 1_000), (9, Time.ISSUED, MAIN, 5_000))

    assert device_times(events, marks)["issued"].tolist() == [1_000]


def event(
    kind: Kind,
    issued: int,
    returned: int = 0,
    ended: int = 0,
    *,
    wait_begin: int = 0,
    wait_end: int = 0,
    flags: int = 0,
) -> np.ndarray:
    one = np.zeros(1, EVENT)
    one["kind"], one["issued"], one["returned"], one["ended"] = kind, issued, returned, ended
    one["wait_begin"], one["wait_end"], one["flags"] = wait_begin, wait_end, flags
    return one


def rows(*events: np.ndarray) -> np.ndarray:
    found = np.concatenate(events)
    found["number"] = np.arange(len(found))
    return found


def marked(*marks: tuple[int, Time, int, int]) -> np.ndarray:
    return np.array(list(marks), MARK)
