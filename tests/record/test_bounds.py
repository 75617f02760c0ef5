"""Steps of ranks that end none themselves: those of the rank whose optimizer steps for them."""

from pathlib import Path

import pytest
from log_made import Made

import recorded_scripts as scripts
import steptime as st
from recorded import record
from steptime.record.bounds import job_bounds, step_bounds
from steptime.record.events import Kind
from steptime.record.program import recorded_program
from steptime.record.read import Group, read_logs

LEARNER = (
    scripts.START
    + """
import time
net = torch.nn.Linear(64, 64)
if rank == size - 1:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    batch = torch.ones(32, 64)
    if rank < size - 1:
        time.sleep(0.02)
        dist.send(batch, size - 1)
    else:
        for actor in range(size - 1):
            dist.recv(batch, actor)
            net(batch).pow(2).mean().backward()
        optimizer.step()
    dist.broadcast(net.weight.data, size - 1)
"""
)


def test_actors_step_as_their_learner_does(tmp_path: Path) -> None:
    done = record(tmp_path, LEARNER, words=("--ranks", "3"))
    assert done.code == 0, done.err
    run = st.load(tmp_path / "run")
    assert run.record.timing.steps == 5
    assert run.record.script.steps_by == "the optimizer's step"
    assert run.step_s > 0.02
    assert {(call.op, call.calls_per_step) for call in run.record.script.calls} == {
        ("send", 1.0),
        ("recv", 2.0),
        ("broadcast", 1.0),
    }
    logs = read_logs(tmp_path / "run")
    found = recorded_program(logs, "learner")
    assert (found.steps, found.alike) == (5, 5)
    assert [len(log.calls) for log in logs] == [12, 12, 18]


def _leader() -> Made:
    """A rank that receives from rank 1, steps and tells all, three times."""
    made = Made(0, 2)
    for begin in (0, 100, 200):
        made.blocking("recv_", 8, begin + 10, begin + 50, peer=1)
        made.part(Kind.OPTIMIZER, begin + 60, begin + 70)
        made.blocking("broadcast_", 8, begin + 80, begin + 90)
    return made


def test_a_step_ends_behind_what_the_other_has_called_in_its_own() -> None:
    follower = Made(1, 2)
    for begin in (0, 100, 200):
        follower.blocking("send", 8, begin + 45, begin + 49, peer=0)
        follower.blocking("broadcast_", 8, begin + 51, begin + 91)
    leader, own = job_bounds([_leader().log(), follower.log()])
    assert (leader // 1000).tolist() == [70, 170, 270]
    assert (own // 1000).tolist() == [
        49,
        149,
        249,
    ]  # the broadcast comes next


def test_who_shares_no_call_with_any_steps_by_the_clock() -> None:
    alone = Made(1, 2, [Group("its own", "gloo", (1,))])
    alone.blocking("allreduce_", 8, 5, 6)
    _, own = job_bounds([_leader().log(), alone.log()])
    assert (own // 1000).tolist() == [70, 170, 270]


@pytest.mark.parametrize("steps", [0, 1])
def test_ranks_none_of_which_ends_two_steps_are_one_step_each(steps: int) -> None:
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.blocking("allreduce_", 8, 5, 6)
        if steps and not rank:
            made.part(Kind.OPTIMIZER, 7, 9)
        logs.append(made.log())
    assert [one.tolist() for one in job_bounds(logs)] == [step_bounds(log).tolist() for log in logs]
    assert [len(one) for one in job_bounds(logs)] == [2, 2]
