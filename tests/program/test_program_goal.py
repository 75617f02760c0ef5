"""The GOAL text of a whole step, parsed by the grammar of LogGOPSim and replayed to its end."""

import numpy as np
import pytest

from goal_replay import Operation, parse, replay
from steptime.collectives import algorithm_named, schedule
from steptime.collectives.price import price
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.program import goal as module
from steptime.program.goal import USUAL, ProgramGoal
from steptime.program.stored import StoredProgram

NBYTES = 10_007


def goal_of(*lists, axes, class_of, algorithms=None) -> ProgramGoal:
    program = Program(
        name="p", axes=axes, lists=tuple(lists), class_of=np.array(class_of, np.int32)
    )
    seconds = tuple(
        tuple((op.seconds or 0.0) if isinstance(op, Compute) else 0.0 for op in ops)
        for ops in lists
    )
    return ProgramGoal(StoredProgram(program=program, seconds=seconds), algorithms or {})


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
