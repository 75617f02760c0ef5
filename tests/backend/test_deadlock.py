"""Circles of ranks that wait for each other, in what the ranks say."""

from pathlib import Path

from torch.distributed import FileStore

from steptime.backend.deadlock import Wait, deadlock
from steptime.backend.reasons import Reasons, Stuck


def _waits(**of: tuple[int, ...]) -> list[Wait]:
    return [Wait(int(rank[1:]), awaited, f"call {rank[1:]}") for rank, awaited in of.items()]


def test_a_circle_is_told_from_its_lowest_rank_whoever_looks() -> None:
    waits = _waits(r2=(7,), r7=(5,), r5=(2,))
    told = {deadlock(rank, waits) for rank in (2, 5, 7)}
    assert told == {
        "rank 2 waits for rank 7 in call 2; rank 7 waits for rank 5 in call 7; "
        "rank 5 waits for rank 2 in call 5"
    }


def test_who_waits_for_a_circle_is_told_of_it_and_who_waits_for_somebody_at_work_is_not() -> None:
    waits = _waits(r0=(3, 1), r1=(2,), r2=(1,), r4=(3,))
    assert (
        deadlock(0, waits) == "rank 1 waits for rank 2 in call 1; rank 2 waits for rank 1 in call 2"
    )
    assert deadlock(4, waits) is None


def test_a_message_that_was_sent_and_is_lost_makes_no_deadlock(tmp_path: Path) -> None:
    def told(sent: int) -> str | None:
        reasons = Reasons(FileStore(str(tmp_path / f"store {sent}"), 1))
        first = Stuck(1, "recv", False, 5, number=2, sent={"1, 5": 4}, received={})
        assert reasons.deadlock(0, first) is None  # nobody else has told anything
        second = Stuck(0, "recv", False, 5, number=4, sent={"0, 5": sent}, received={})
        return reasons.deadlock(1, second)

    assert told(2) == "rank 0 waits for rank 1 in recv; rank 1 waits for rank 0 in recv"
    assert told(3) is None  # of which rank 0 has received two


def test_a_message_that_is_sent_waits_for_who_neither_received_it_nor_reads() -> None:
    def waits_for(sends: bool, received: int, peer: int = 0) -> bool:
        mine = Stuck(1, "send", True, 5, number=2, sent={"1, 5": 3}, received={})
        other = Stuck(peer, "call", sends, 6, number=0, sent={}, received={"0, 5": received})
        return mine.needs(other, 0)

    assert waits_for(sends=True, received=2)
    assert not waits_for(sends=True, received=3)  # it has come
    assert not waits_for(sends=False, received=2)  # who receives from rank 0 reads it as well
    assert waits_for(sends=False, received=2, peer=7)
