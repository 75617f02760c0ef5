"""What threads wait for, as other processes read it: until it is over, and in a deadlock longer."""

import pytest

from steptime.backend.deadlock import Wait
from steptime.backend.host.waits import Board, Waits

FIRST, SECOND = Wait(0, (1,), "recv"), Wait(1, (0,), "send")
CIRCLE = "rank 0 waits for rank 1 in recv; rank 1 waits for rank 0 in send"


@pytest.fixture
def both() -> tuple[Waits, Waits]:
    """Those of two processes of one group; each keeps the board that it writes on."""
    places = [memoryview(bytearray(1024)) for _ in range(2)]
    found = Waits(), Waits()
    for own, one in enumerate(found):
        board = Board(own, places)
        one.add(board)
        one.kept = board  # type: ignore[attr-defined]
    return found


def test_who_has_done_with_waiting_is_in_no_circle(both: tuple[Waits, Waits]) -> None:
    first, second = both
    first.tell(FIRST)
    second.tell(SECOND)
    first.forget()
    assert second.deadlock(SECOND) is None
    first.tell(FIRST)
    assert second.deadlock(SECOND) == CIRCLE


def test_a_deadlock_is_told_on_for_those_who_look_after_one_has_raised(
    both: tuple[Waits, Waits],
) -> None:
    first, second = both
    first.tell(FIRST)
    second.tell(SECOND)
    assert first.deadlock(FIRST) == CIRCLE
    first.forget()
    assert second.deadlock(SECOND) == CIRCLE
    other = Wait(0, (2,), "broadcast")  # who waits anew has done with what it was in
    first.tell(other)
    assert second.deadlock(SECOND) is None
