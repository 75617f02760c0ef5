"""Clocks of several hosts: measured over threads whose clocks are known, then put on one."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Queue
from unittest.mock import patch

import numpy as np
import pytest

from ranks import on_ranks
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, merge
from steptime.world import alignment as module
from steptime.world.alignment import Alignment, Reading, read_clocks

HOST_OF = (0, 0, 1, 1, 2)
RATE = 1.1  # of a clock that runs fast
AHEAD = (0.0, 5000.25, -731.5)
"""By host, seconds that its clock is ahead of that of the first."""


class ThreadPeers:
    """Ranks that are threads; a message takes its time, not the same both ways."""

    def __init__(
        self, rank: int, ranks: int, boxes: dict[tuple[int, int], "Queue[object]"]
    ) -> None:
        self.rank, self.ranks, self.boxes = rank, ranks, boxes
        self.sent = 0

    def gather_texts(self, mine: str) -> list[str]:
        for to in range(self.ranks):
            self.boxes[self.rank, to].put(mine)
        return [str(self.boxes[source, self.rank].get(timeout=600)) for source in range(self.ranks)]

    def send(self, number: float, to: int) -> None:
        self.sent += 1
        time.sleep(np.random.default_rng(self.sent).uniform(0, 3e-4) * (1 + to))
        self.boxes[self.rank, to].put(number)

    def receive(self, source: int) -> float:
        return float(self.boxes[source, self.rank].get(timeout=600))  # type: ignore[arg-type]


def read(hosts: Sequence[int], clocks: Sequence[Callable[[], float]]) -> list[Reading]:
    """What each rank, a thread on one of ``hosts``, is told of all clocks."""
    ranks = len(hosts)
    boxes = {(a, b): Queue() for a in range(ranks) for b in range(ranks)}
    found: dict[int, Reading] = {}
    here = threading.local()

    def run(rank: int) -> None:
        here.host = f"boot{hosts[rank]}"
        found[rank] = read_clocks(ThreadPeers(rank, ranks, boxes), clocks[rank])

    with patch.object(module, "_identity", lambda: here.host):
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=600)
    return [found[rank] for rank in range(ranks)]


def clock_of(host: int, rate: float = 1.0) -> Callable[[], float]:
    return lambda: rate * time.perf_counter() + AHEAD[host]


def test_offsets_are_found_within_their_error() -> None:
    every = read(HOST_OF, [clock_of(host) for host in HOST_OF])
    for reading in every:
        assert reading.ranks == ((0, 1), (2, 3), (4,))
        assert (np.abs(reading.offset - AHEAD) <= reading.error).all()
        assert reading.offset[0] == reading.error[0] == 0.0
        assert 0 < reading.error[1:].max() < 1
        assert (reading.offset == every[0].offset).all()


def test_ranks_of_one_clock_send_each_other_nothing() -> None:
    with patch.object(ThreadPeers, "send", side_effect=AssertionError):
        (reading, _) = read((0, 0), [clock_of(0)] * 2)
    assert (reading.ranks, reading.offset.tolist(), reading.error.tolist()) == (((0, 1),), [0], [0])


def readings(drift: float, error: float) -> Alignment:
    """A second host, 100 s ahead at first, by whose clock the run lasts from 110 to 120."""
    hosts = {"hosts": ("a", "b"), "ranks": ((0,), (1,))}
    return Alignment(
        *(
            Reading(
                **hosts,
                at=np.array([at, at + offset]),
                offset=np.array([0.0, offset]),
                error=np.array([0.0, error / step]),
            )
            for step, at, offset in ((1, 10.0, 100.0), (2, 20.0, 100.0 + drift))
        )
    )


def test_steady_drift_is_taken_off() -> None:
    alignment = readings(drift=1e-3, error=2e-5)
    there = np.array([110.0, 115.0005, 120.001])
    assert alignment.on_rank_0(1, there).tolist() == pytest.approx([10, 15, 20], abs=1e-7)
    assert alignment.on_rank_0(0, there).tolist() == there.tolist()
    _, clock = alignment.clocks()
    assert (clock.host, clock.ranks) == ("b", (1,))
    assert (clock.offset_s, clock.error_s) == (100.0, 2e-5)
    assert clock.drift_s == pytest.approx(1e-3)


def recorded(rank: int, *spans: tuple[float, float]) -> Timeline:
    return Timeline(
        source="measured",
        ranks=2,
        names=("x",),
        streams=("comm",),
        intervals=np.array(
            [(rank, 0, 0, Phase.COMMUNICATION, 0, *s, 0, 0) for s in spans], INTERVAL
        ),
        messages=np.empty(0, MESSAGE),
    )


def test_timelines_merge_on_one_clock_and_say_how_well() -> None:
    alignment = readings(drift=0.0, error=1e-5)
    merged = merge(
        [
            alignment.aligned(recorded(0, (11.0, 12.0)), 0),
            alignment.aligned(recorded(1, (111.5, 112.0)), 1),
        ]
    )
    assert merged.intervals["start"].tolist() == [11.0, 11.5]
    assert merged.clocks == alignment.clocks()


def test_a_clock_that_runs_fast_is_followed() -> None:
    fast = [clock_of(0), clock_of(1, rate=RATE)]
    before = read((0, 1), fast)[0]
    instants, heard = [], []
    for _ in range(20):
        time.sleep(0.005)
        now = time.perf_counter()  # once: a busy machine may stop us between two readings
        instants.append(now + AHEAD[0])
        heard.append(RATE * now + AHEAD[1])
    alignment = Alignment(before, read((0, 1), fast)[0])
    off = np.abs(alignment.on_rank_0(1, np.array(heard)) - instants)
    clock = alignment.clocks()[1]
    assert off.max() <= RATE * clock.error_s + 1e-4
    assert clock.drift_s + 2 * clock.error_s > 20 * 0.005 * (RATE - 1)


def read_by_torch() -> Reading:
    import torch.distributed as dist

    from steptime.world.clock import TorchPeers

    ahead = 1000.0 * dist.get_rank()
    with patch.object(module, "_identity", lambda: f"boot{dist.get_rank()}"):
        return read_clocks(TorchPeers(), lambda: time.perf_counter() + ahead)


def test_ranks_of_torch_read_each_others_clocks(tmp_path: Path) -> None:
    for reading in on_ranks(2, read_by_torch, tmp_path):
        assert reading.offset[1] == pytest.approx(1000.0, abs=reading.error[1])
        assert reading.error[1] < 10
