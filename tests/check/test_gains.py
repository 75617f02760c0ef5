"""What a slow habit is said to cost, of logs made by hand: times in microseconds."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steptime.check.job import Job
from steptime.check.judges import accumulation, one_receiver
from steptime.check.steps import cost, steps_of
from steptime.record.events import Kind
from steptime.record.read import Observation, ProcessLog

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))
from log_made import US, Made

STEP = 1000
NUMBER = 5


def _accumulating(rank: int, ran: float) -> ProcessLog:
    """Steps of two backwards; in the first DDP has two sums on the way, from 50 to 350."""
    made = Made(rank, 2)
    for begin in range(0, NUMBER * STEP, STEP):
        made.part(Kind.BACKWARD, begin, begin + 400, ran)
        made.call("allreduce_", 1 << 20, begin + 50, begin + 320)
        made.call("allreduce_", 1 << 20, begin + 300, begin + 350)
        made.part(Kind.BACKWARD, begin + 500, begin + 700, 200)
        made.part(Kind.OPTIMIZER, begin + 900, begin + STEP)
    return made.log()


@pytest.mark.parametrize(
    ("ran", "gain"),
    [
        pytest.param((150, 180), 0.22, id="of the 300 while they were on the way it ran for 80"),
        pytest.param((50, 150), 0.25, id="a rank that stood still for longer than both"),
        pytest.param((0, 0), 0.05, id="not known, as of a trace: the wait at its end"),
        pytest.param((400, 400), 0.05, id="it ran all the time"),
    ],
)
def test_sums_beside_a_backward_cost_what_it_does_not_run(
    ran: tuple[float, float], gain: float
) -> None:
    job = Job(logs=[_accumulating(rank, of_rank) for rank, of_rank in enumerate(ran)], now_ns=0)
    (found,) = accumulation.JUDGE.judge(job)
    assert found.gain == pytest.approx(gain)


def test_a_rank_that_comes_late_to_each_second_call_spares_no_wait() -> None:
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        for begin in range(0, NUMBER * STEP, STEP):
            for number, at in enumerate((100, 300)):
                late = 80 if number % 2 == rank else 0
                made.blocking("allreduce_", 4, begin + at + late, begin + at + 100)
            made.part(Kind.OPTIMIZER, begin + 900, begin + STEP)
        logs.append(made.log())
    # Each waits 100 for one call and 20 for the other.
    assert cost(steps_of(Job(logs=logs, now_ns=0)), lambda _: True) == 120 * US


@pytest.mark.parametrize(("hosts", "gain"), [(("a", "a", "b", "b"), 0.2), (("a",) * 4, None)])
def test_what_one_rank_receives_has_a_gain_where_hosts_have_links(
    hosts: tuple[str, ...], gain: float | None
) -> None:
    logs = []
    for rank, host in enumerate(hosts):
        made = Made(rank, 4)
        for begin in range(0, NUMBER * STEP, STEP):
            made.blocking("gather_", 4 << 20, begin + 100, begin + 500, peer=0)
            made.part(Kind.OPTIMIZER, begin + 900, begin + STEP)
        called = Observation("called", {"call": "gather", "at": 1})
        logs.append(replace(made.log(), host=host, observed=(called,)))
    (found,) = one_receiver.JUDGE.judge(Job(logs=logs, now_ns=0))
    assert found.ranks == [0]
    # Half of the 400 that the gathers take of each 1000.
    assert found.gain == (None if gain is None else pytest.approx(gain))
    assert ("within one host" in found.mend) == (gain is None)
