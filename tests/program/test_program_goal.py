"""The GOAL text of a whole step, parsed by the grammar of LogGOPSim and replayed to its end."""

import numpy as np
import pytest

from goal_replay import Operation, parse, replay
from loggopsim import finish_ns
from steptime.cluster.files import cluster_named
from steptime.cluster.what_if import ideal
from steptime.collectives import algorithm_named, schedule
from steptime.collectives.price import price
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.program import goal as module
from steptime.program.goal import USUAL, ProgramGoal
from steptime.program.stored import StoredProgram
from steptime.simulate.device import seconds_on
from steptime.simulate.step import simulate
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

NBYTES = 10_007


def goal_of(
    *lists, axes, class_of, algorithms=None, reduce_s_per_byte=0.0, cpus=False
) -> ProgramGoal:
    program = Program(
        name="p", axes=axes, lists=tuple(lists), class_of=np.array(class_of, np.int32)
    )
    seconds = tuple(
        tuple((op.seconds or 0.0) if isinstance(op, Compute) else 0.0 for op in ops)
        for ops in lists
    )
    stored = StoredProgram(program=program, seconds=seconds, reduce_s_per_byte=reduce_s_per_byte)
    return ProgramGoal(stored, algorithms or {}, cpus=cpus)


def chain(operation: Operation) -> set[int]:
    """All that an operation waits for, directly or not."""
    found: set[int] = set()
    left = [operation]
    while left:
        for other in left.pop().requires:
            if id(other) not in found:
                found.add(id(other))
                left.append(other)
    return found


def test_streams_run_beside_each_other_and_wait_where_the_program_says() -> None:
    goal = goal_of(
        (
            Compute(name="a", seconds=1e-3),
            Collective(name="r", kind="all_reduce", group=("d",), nbytes=NBYTES, after=(0,)),
            Compute(name="b", seconds=2e-3),
            Wait(name="w", after=(1,)),
            Compute(name="c", seconds=3e-3, after=(-3,)),
        ),
        axes={"d": 3},
        class_of=[0, 0, 0],
        cpus=True,
    )
    ranks = parse("".join(goal.text()))
    replay(ranks)
    for block in ranks:
        by_time = {o.words["calc"]: o for o in block if "calc" in o.words}
        a, b, c = (by_time[f"{n}000000"] for n in (1, 2, 3))
        messages = [o for o in block if "calc" not in o.words]
        assert all(id(a) in chain(o) for o in messages)
        assert {o.words.get("cpu") for o in messages} == {"1"}
        assert "cpu" not in b.words
        assert not any(id(o) in chain(b) for o in messages)
        assert all(id(o) in chain(c) for o in messages if "received" in o.words)
        assert id(b) in chain(c)
    assert goal.chosen == {"all_reduce": "ring"}
    ring = price(schedule(algorithm_named("all_reduce", "ring"), 3), NBYTES)
    assert goal.messages == ring.messages_sent.sum()
    sent = sum(int(o.words["sent"]) for o in ranks[0] if "sent" in o.words)
    assert sent == ring.bytes_sent[0]


def test_computing_is_one_operation_and_nothing_follows_it() -> None:
    ops = Compute(name="a", seconds=1e-3), Compute(name="b", seconds=2e-3)
    (block,) = parse("".join(goal_of(ops, axes={"d": 1}, class_of=[0]).text()))
    assert [one.words["calc"] for one in block] == ["1000000", "2000000"]


@pytest.mark.parametrize(
    "how", [{"pipeline": 4}, {"data": 4, "strategy": "overlapped"}], ids=["pipeline", "overlapped"]
)
def test_loggopsim_says_of_a_step_on_an_ideal_network_what_simulate_says(how: dict) -> None:
    cluster = cluster_named("office-10gbe")
    program = step_of(StepSpec(model="gpt2-124M", ranks=4, **how), cluster).program
    seconds = tuple(tuple(seconds_on(cluster.device, op) for op in ops) for ops in program.lists)
    ends = simulate(program, ideal(cluster), steps=1).timeline.intervals["end"]
    for cpus in (False, True):
        goal = ProgramGoal(StoredProgram(program=program, seconds=seconds), cpus=cpus)
        finish = finish_ns("".join(goal.text()), atlahs=cpus)
        assert finish == pytest.approx(ends.max() * 1e9, rel=1e-6)


def test_a_reduction_takes_what_the_run_charged_for_it() -> None:
    op = Collective(name="r", kind="all_reduce", group=("d",), nbytes=4_000_000)
    for charged, calcs in ((0.0, set()), (1e-9, {"1000000"})):
        goal = goal_of((op,), axes={"d": 4}, class_of=[0] * 4, reduce_s_per_byte=charged)
        (block, *_) = parse("".join(goal.text()))
        assert {o.words["calc"] for o in block if o.words.get("calc", "0") != "0"} == calcs


def test_messages_of_groups_and_stages_do_not_meet_others() -> None:
    tail = (
        Collective(name="s", kind="all_reduce", group=("d",), nbytes=64),
        Collective(name="t", kind="all_gather", group=("d", "p"), nbytes=64),
    )
    goal = goal_of(
        (*(Send(name=f"x{n}", axis="p", by=1, nbytes=n, tag=7) for n in range(3)), *tail),
        (*(Recv(name=f"x{n}", axis="p", by=-1, nbytes=n, tag=7) for n in range(3)), *tail),
        axes={"d": 2, "p": 2},
        class_of=[0, 0, 1, 1],
    )
    ranks = parse("".join(goal.text()))
    replay(ranks)
    pairs = [
        (rank, o.words["to"], o.words["send_tag"])
        for rank, block in enumerate(ranks)
        for o in block
        if "to" in o.words
    ]
    assert len(pairs) == len(set(pairs)) == goal.messages
    assert [o.words["sent"] for o in ranks[0] if o.words.get("to") == "2"][:3] == ["1", "1", "2"]


@pytest.mark.parametrize("kind", [*USUAL, "barrier"])
def test_every_collective_has_an_algorithm(kind: str) -> None:
    op = Collective(name="c", kind=kind, group=("d",), nbytes=NBYTES, root=2)
    goal = goal_of((op,), axes={"d": 5}, class_of=[0] * 5)
    replay(parse("".join(goal.text())))
    assert goal.chosen[kind] == USUAL.get(kind, "dissemination")


def test_the_users_algorithm_comes_first_then_that_of_the_program() -> None:
    op = Collective(name="c", kind="all_reduce", group=("d",), nbytes=64, algorithm="circulant")
    for asked, expected in (({}, "circulant"), ({"all_reduce": "binomial"}, "binomial")):
        goal = goal_of((op,), axes={"d": 4}, class_of=[0] * 4, algorithms=asked)
        assert goal.chosen == {"all_reduce": expected}


def test_a_group_of_one_sends_nothing() -> None:
    op = Collective(name="c", kind="all_reduce", group=("t",), nbytes=64)
    goal = goal_of((op,), axes={"t": 1, "d": 2}, class_of=[0, 0])
    assert goal.messages == 0
    assert [len(block) for block in parse("".join(goal.text()))] == [1, 1]


def test_too_many_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MESSAGES", 100)
    op = Collective(name="c", kind="all_reduce", group=("d",), nbytes=1 << 20)
    with pytest.raises(UsageError, match="more than 100 messages"):
        goal_of((op,), axes={"d": 64}, class_of=[0] * 64)


def test_an_unknown_algorithm_is_refused() -> None:
    op = Collective(name="c", kind="all_reduce", group=("d",), nbytes=64)
    with pytest.raises(UsageError, match="there is no all_reduce 'x'"):
        goal_of((op,), axes={"d": 4}, class_of=[0] * 4, algorithms={"all_reduce": "x"})


def test_more_tags_than_goal_has_are_refused(monkeypatch) -> None:
    reduce = Collective(name="r", kind="all_reduce", group=("d",), nbytes=64)
    lists, of = ((reduce,),), {"axes": {"d": 3}, "class_of": [0, 0, 0]}
    monkeypatch.setattr(module, "_MOST_TAG", 4)  # a ring of 3 has 4 rounds
    goal_of(*lists, **of)
    monkeypatch.setattr(module, "_MOST_TAG", 3)
    with pytest.raises(UsageError, match="p needs 4 tags and GOAL has 2"):
        goal_of(*lists, **of)
