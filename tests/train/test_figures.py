from dataclasses import replace

import numpy as np
import pytest

from steptime.collectives.call_bytes import Traffic
from steptime.strategies import strategy_named
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, merge
from steptime.timeline.waits import with_waits
from steptime.train.figures import RankRecord, strategy_figures


def record(rank: int, steps: list[tuple[float, float, float]]) -> RankRecord:
    """A rank whose steps last (compute, exposed communication, update) seconds, one by one."""
    rows, now = [], 0.0
    for number, (compute, exposed, update) in enumerate(steps):
        begin = now
        for phase, length in (
            (Phase.COMPUTE, compute), (Phase.COMMUNICATION, exposed), (Phase.UPDATE, update)
        ):  # fmt: skip
            rows.append((rank, 1, 1, phase, number, now, now + length, 0, 0))
            now += length
        rows.append((rank, 0, 0, Phase.STEP, number, begin, now, 0, 0))
    return RankRecord(
        rank=rank,
        host=f"host{rank // 2}",
        timed_from=1,
        steps=len(steps) - 1,
        timeline=Timeline(
            source="measured",
            ranks=4,
            names=("server", "work"),
            streams=("step", "compute"),
            intervals=np.array(rows, dtype=INTERVAL),
            messages=np.empty(0, dtype=MESSAGE),
        ),
        losses=[5.0 - rank, 4.0 - rank],
        traffic=Traffic(100 * (rank + 1), 10),
        wire=Traffic(120, 12) if rank else None,
        parameter_hash="same",
    )


@pytest.fixture
def figures():
    records = [record(0, [(9, 9, 9), (4, 2, 1), (4, 4, 1)]),
               record(1, [(9, 9, 9), (5, 1, 1), (4, 4, 1)])]  # fmt: skip
    line = with_waits(merge([one.timeline for one in records]))
    return strategy_figures(strategy_named("server"), records, line, tokens_per_step=800)


def test_only_timed_steps_count_and_the_slowest_rank_sets_the_pace(figures):
    assert figures.step_time_s.median == pytest.approx(8.0)
    assert figures.tokens_per_s == pytest.approx(100.0)


def test_what_ranks_needed_of_a_core_is_the_mean_of_their_steps():
    first = replace(record(0, [(9, 9, 9), (4, 2, 1)]), core_s=[(1.0, 0.25), (3.0, 0.75)])
    second = record(1, [(9, 9, 9), (4, 2, 1)])  # as on a GPU: nobody counted
    line = with_waits(merge([first.timeline, second.timeline]))
    of = strategy_figures(strategy_named("server"), [first, second], line, tokens_per_step=800)
    assert (of.ranks[0].compute_core_s, of.ranks[0].update_core_s) == (2.0, 0.5)
    assert (of.ranks[1].compute_core_s, of.ranks[1].update_core_s) == (None, None)


def test_phases_add_up_to_the_median_step(figures):
    parts = (figures.compute_s, figures.exposed_comm_s, figures.update_s, figures.other_s)
    assert sum(parts) == pytest.approx(figures.step_time_s.median)
    assert figures.compute_s == pytest.approx(8.0 * 17 / 32)
    assert figures.exposed_comm_s == pytest.approx(8.0 * 11 / 32)
    assert min(parts) >= 0


def test_phases_of_a_rank_add_up_to_its_step(figures):
    for rank in figures.ranks:
        parts = rank.compute_s + rank.exposed_comm_s + rank.update_s + rank.other_s
        assert parts == pytest.approx(rank.step_time_s)


def test_bytes_are_those_of_one_step_by_rank_and_by_host(figures):
    assert figures.bytes_sent_per_rank == [50, 100]
    assert figures.bytes_sent_per_host == {"host0": 150}
    assert figures.wire_bytes_sent_per_rank is None  # one rank's kernel does not tell
    assert figures.loss == [4.5, 3.5]
