from typing import Any

import numpy as np
import pytest

from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.timeline.critical_path import critical_path

NAMES = ("step", "a", "b", "c", "all_reduce", "send x", "receive x", "wait")
STREAMS = ("step", "compute", "comm")


def timeline_of(
    *rows: tuple[int, str, str, Phase, float, float], messages: list[Any] | None = None
) -> Timeline:
    """Rows are rank, stream, name, phase, start and end; bytes are 8 where it communicates."""
    intervals = [
        (rank, STREAMS.index(stream), NAMES.index(name), phase, 0, start, end, 8 * (phase == 2), 0)
        for rank, stream, name, phase, start, end in rows
    ]
    return Timeline(
        source="measured",
        ranks=1 + max(rank for rank, *_ in rows),
        names=NAMES,
        streams=STREAMS,
        intervals=np.array(intervals, INTERVAL),
        messages=np.array(messages or [], MESSAGE),
    )


def path_of(timeline: Timeline) -> list[tuple[int, str, float, float]]:
    steps = timeline.steps_named("step")
    pieces = critical_path(timeline, steps)
    assert (pieces["start"][1:] == pieces["end"][:-1]).all(), "no gap, and nothing twice"
    assert (pieces["end"] > pieces["start"]).all()
    assert pieces["end"][-1] == steps["end"].max()
    rows = timeline.intervals
    return [
        (rank, NAMES[rows["name"][at]] if at >= 0 else "", start, end)
        for rank, at, start, end in pieces.tolist()
    ]


def step(rank: int, start: float, end: float) -> tuple[int, str, str, Phase, float, float]:
    return rank, "step", "step", Phase.STEP, start, end


def work(rank: int, name: str, start: float, end: float) -> Any:
    return rank, "compute", name, Phase.COMPUTE, start, end


def talk(rank: int, start: float, end: float, name: str = "all_reduce") -> Any:
    return rank, "comm", name, Phase.COMMUNICATION, start, end


def test_one_rank_is_its_own_path() -> None:
    timeline = timeline_of(step(0, 0, 3), work(0, "a", 0, 1), work(0, "b", 1, 3))
    assert path_of(timeline) == [(0, "a", 0, 1), (0, "b", 1, 3)]


def test_a_collective_leads_to_the_last_that_came() -> None:
    timeline = timeline_of(
        step(0, 0, 5),
        step(1, 0, 5),
        work(0, "a", 0, 1),
        work(1, "a", 0, 3),
        talk(0, 1, 4),
        talk(1, 3, 4),
        work(0, "b", 4, 5),
        work(1, "b", 4, 4.5),
    )
    assert path_of(timeline) == [(1, "a", 0, 3), (0, "all_reduce", 3, 4), (0, "b", 4, 5)]


@pytest.mark.parametrize("late", [(2, 3), (3, 2)])
def test_of_several_late_ranks_a_collective_leads_to_the_last(late: tuple[float, float]) -> None:
    timeline = timeline_of(
        *(step(rank, 0, 5) for rank in range(3)),
        *(work(rank, "a", 0, end) for rank, end in enumerate((1, *late))),
        *(talk(rank, end, 4) for rank, end in enumerate((1, *late))),
        work(0, "b", 4, 5),
    )
    last = 1 + late.index(3)
    assert path_of(timeline) == [(last, "a", 0, 3), (0, "all_reduce", 3, 4), (0, "b", 4, 5)]


def test_a_collective_that_all_reach_at_once_leads_on_along_the_same_rank() -> None:
    for rank in (0, 1):
        timeline = timeline_of(
            *(step(r, 0, 4 + (r == rank)) for r in (0, 1)),
            *(row for r in (0, 1) for row in (work(r, "a", 0, 2), talk(r, 2, 4))),
            work(rank, "b", 4, 5),
        )
        assert {piece[0] for piece in path_of(timeline)} == {rank}


def test_hidden_communication_is_not_on_the_path() -> None:
    timeline = timeline_of(
        step(0, 0, 4),
        step(1, 0, 4),
        *(row for rank in (0, 1) for row in (work(rank, "a", 0, 4), talk(rank, 1, 3))),
    )
    assert [name for _, name, *_ in path_of(timeline)] == ["a"]


def test_a_collective_that_work_launched_leads_into_that_work() -> None:
    timeline = timeline_of(step(0, 0, 6), work(0, "a", 0, 4), talk(0, 3, 6))
    assert path_of(timeline) == [(0, "a", 0, 3), (0, "all_reduce", 3, 6)]


def test_collectives_that_queue_follow_their_stream_not_the_work_beside() -> None:
    timeline = timeline_of(step(0, 0, 6), work(0, "a", 0, 5), talk(0, 1, 3), talk(0, 3, 6))
    assert path_of(timeline) == [
        (0, "a", 0, 1),
        (0, "all_reduce", 1, 3),
        (0, "all_reduce", 3, 6),
    ]


def test_a_wait_is_what_it_waited_for() -> None:
    waited = (0, "compute", "wait", Phase.WAIT, 1, 5)
    timeline = timeline_of(
        step(0, 0, 6), work(0, "a", 0, 1), waited, talk(0, 1, 5), work(0, "b", 5, 6)
    )
    assert [name for _, name, *_ in path_of(timeline)] == ["a", "all_reduce", "b"]
    alone = timeline_of(step(0, 0, 6), work(0, "a", 0, 1), waited, work(0, "b", 5, 6))
    assert [name for _, name, *_ in path_of(alone)] == ["a", "wait", "b"]


def test_a_message_leads_to_its_sender() -> None:
    rows = (
        step(0, 0, 4),
        step(1, 0, 5),
        work(0, "a", 0, 3),
        talk(0, 3, 4, "send x"),
        talk(1, 0, 4, "receive x"),
        work(1, "b", 4, 5),
    )
    found = path_of(timeline_of(*rows, messages=[(0, 1, 3.0, 4.0, 8)]))
    assert found == [(0, "a", 0, 3), (1, "receive x", 3, 4), (1, "b", 4, 5)]
    unknown = path_of(timeline_of(*rows))
    assert unknown == [(1, "receive x", 0, 4), (1, "b", 4, 5)]


@pytest.mark.parametrize("other", [(0, 1, 3.5, 4.0, 16), (2, 0, 3.5, 4.0, 8)])
def test_a_message_of_other_bytes_or_ranks_leads_nowhere(other: tuple[Any, ...]) -> None:
    timeline = timeline_of(
        *(step(rank, 0, 4 + (rank == 1)) for rank in range(3)),
        work(0, "a", 0, 3),
        work(2, "c", 0, 3.5),
        talk(0, 3, 4, "send x"),
        talk(1, 0, 4, "receive x"),
        work(1, "b", 4, 5),
        messages=[(0, 1, 3.0, 4.0, 8), other],
    )
    assert path_of(timeline) == [(0, "a", 0, 3), (1, "receive x", 3, 4), (1, "b", 4, 5)]


def test_a_send_is_not_held_up_by_one_of_the_same_name_elsewhere() -> None:
    timeline = timeline_of(
        step(0, 0, 5),
        step(1, 0, 4.5),
        work(0, "a", 0, 1),
        talk(0, 1, 4, "send x"),
        work(0, "b", 4, 5),
        work(1, "a", 0, 3),
        talk(1, 3, 4.5, "send x"),
    )
    assert path_of(timeline) == [(0, "a", 0, 1), (0, "send x", 1, 4), (0, "b", 4, 5)]


def test_a_late_receiver_holds_its_sender_up() -> None:
    timeline = timeline_of(
        step(0, 0, 5),
        step(1, 0, 4),
        talk(0, 0, 4, "send x"),
        work(0, "c", 4, 5),
        work(1, "a", 0, 3),
        talk(1, 3, 4, "receive x"),
        messages=[(0, 1, 3.0, 4.0, 8)],
    )
    assert path_of(timeline) == [(1, "a", 0, 3), (0, "send x", 3, 4), (0, "c", 4, 5)]


def test_a_receiver_that_came_after_the_send_leads_on_along_its_own_rank() -> None:
    timeline = timeline_of(
        step(0, 0, 4),
        step(1, 0, 5),
        talk(0, 1, 4, "send x"),
        work(1, "a", 0, 2),
        talk(1, 2, 4, "receive x"),
        work(1, "b", 4, 5),
        messages=[(0, 1, 1.0, 4.0, 8)],
    )
    assert path_of(timeline) == [(1, "a", 0, 2), (1, "receive x", 2, 4), (1, "b", 4, 5)]


@pytest.mark.parametrize("others", [[], [step(1, 1, 4)]])
def test_what_was_sent_before_the_step_or_by_a_rank_without_one_leads_nowhere(others: Any) -> None:
    timeline = timeline_of(
        step(0, 0, 5),
        talk(0, 0, 4, "receive x"),
        work(0, "b", 4, 5),
        *others,
        messages=[(1, 0, 0.5, 4.0, 8)],
    )
    assert path_of(timeline) == [(0, "receive x", 0, 4), (0, "b", 4, 5)]


def test_time_in_which_nothing_is_known_is_a_piece_of_its_own() -> None:
    timeline = timeline_of(step(0, 0, 6), work(0, "a", 1, 2), work(0, "b", 4, 5))
    assert path_of(timeline) == [
        (0, "", 0, 1),
        (0, "a", 1, 2),
        (0, "", 2, 4),
        (0, "b", 4, 5),
        (0, "", 5, 6),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_always_tile_the_step(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows: list[Any] = []
    for rank in range(4):
        edges = np.sort(random.uniform(0, 10, 12))
        rows += [work(rank, "abc"[i % 3], edges[i], edges[i + 1]) for i in range(0, 11, 2)]
        starts = np.sort(random.uniform(0, 9, 4))
        rows += [talk(rank, s, s + random.uniform(0, 2)) for s in starts]
        rows.append(step(rank, random.uniform(0, 0.5), random.uniform(10, 11)))
    timeline = timeline_of(*rows)
    pieces = path_of(timeline)
    steps = timeline.steps_named("step")
    begin = steps["start"][steps["rank"] == pieces[0][0]][0]
    assert sum(end - start for *_, start, end in pieces) == pytest.approx(
        steps["end"].max() - begin
    )


def test_no_steps_no_path() -> None:
    timeline = timeline_of(work(0, "a", 0, 1))
    assert len(critical_path(timeline, timeline.steps_named("step"))) == 0
