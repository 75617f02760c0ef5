"""What posting messages and coming late cost a step, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from steptime.cluster import MESSAGE, POST, CallTimes, Cluster, parse_cluster
from steptime.cluster.beside import computing_beside
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.simulate.call_costs import with_costs
from steptime.simulate.step import simulate

CLUSTER = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GB"
memory_bandwidth = "1GB/s"

[host]
devices = 2

[inside]
kind = "switch"
name = "bus"
bandwidth = "1GB/s"
latency = "0us"
"""


def _cluster(**calls: CallTimes) -> Cluster:
    return replace(
        parse_cluster(CLUSTER, "two"), calls={kind: (one,) for kind, one in calls.items()}
    )


def _times(seconds: float, late: float = 0.0) -> CallTimes:
    return CallTimes(
        ranks=2, sizes=(1e3, 1e6), seconds=(seconds,) * 2, late=(late,) * 2, algorithm="ring"
    )


def _program(*ops: object) -> Program:
    return Program(
        name="step",
        axes={"data": 2},
        lists=(tuple(ops),),  # type: ignore[arg-type]
        class_of=np.zeros(2, np.int32),
    )


def _ring(after: tuple[int, ...]) -> tuple[Send, Recv]:
    return (
        Send(name="send", axis="data", by=1, nbytes=1000, stream="out", after=after),
        Recv(name="receive", axis="data", by=-1, nbytes=1000, stream="in", after=after),
    )


def _step_s(program: Program, cluster: Cluster) -> float:
    return float(simulate(program, cluster).step_s[-1])


def test_posting_delays_the_computing_behind_it_and_hides_nothing() -> None:
    program = _program(
        Compute(name="first", seconds=1.0),
        *_ring(after=(0,)),
        Compute(name="second", seconds=1.0),
        Wait(name="wait", after=(1, 2)),
    )
    plain = _step_s(program, _cluster(message=_times(0.5)))
    posted = _step_s(program, _cluster(message=_times(0.5), post=_times(0.1)))
    assert plain == pytest.approx(2.0)  # the message is hidden
    assert posted == pytest.approx(2.2)  # both of its ends were posted


def test_a_call_of_one_rank_does_not_come_late() -> None:
    call = Collective(name="one", kind="all_reduce", group=("tensor",), nbytes=1000, after=(0,))
    ops = Compute(name="first", seconds=1.0), call, Wait(name="wait", after=(1,))
    program = replace(_program(*ops), axes={"tensor": 1, "data": 2})
    assert _step_s(program, _cluster(all_reduce=_times(0.5, late=0.1))) == 1.0


def test_posting_costs_nothing_where_nothing_is_computed() -> None:
    program = _program(*_ring(after=(-1,)), Wait(name="wait", after=(0, 1)))
    without = _step_s(program, _cluster(message=_times(0.5)))
    assert _step_s(program, _cluster(message=_times(0.5), post=_times(0.1))) == without


def test_posting_keeps_nobody_from_computing_once_the_message_was_waited_for() -> None:
    """What was waited for is in the time of the message: it would count twice."""
    waits = Wait(name="wait", after=(0, 1))
    computes = Compute(name="compute", seconds=1.0)
    posted = _cluster(message=_times(0.5), post=_times(0.1))
    hidden = _program(*_ring(after=(-1,)), computes, Wait(name="wait", after=(0, 1)))
    awaited = _program(*_ring(after=(-1,)), waits, computes)
    before = _program(
        *_ring(after=(-1,)), *_ring(after=(-1,)), replace(waits, after=(2, 3)), computes
    )
    assert [op.name for op in with_costs(hidden, posted).lists[0]].count("post") == 1
    assert [op.name for op in with_costs(awaited, posted).lists[0]].count("post") == 0
    assert [op.name for op in with_costs(before, posted).lists[0]].count("post") == 0


def test_where_a_device_beside_the_cores_computes_they_are_free() -> None:
    program = _program(
        Compute(name="first", seconds=1.0),
        *_ring(after=(-1, 0)),
        Compute(name="second", seconds=1.0, after=(0,)),
        Wait(name="wait", after=(1, 2)),
    )
    times = replace(_times(0.5, late=0.25), late_beside=(0.125, 0.125))
    cluster = computing_beside(_cluster(message=times, post=_times(0.1)))
    costs = [op for op in with_costs(program, cluster).lists[0] if op not in program.lists[0]]
    late = [op.seconds for op in costs if isinstance(op, Compute) and op.name.startswith("late")]
    assert late == [0.125]
    assert "post" not in [op.name for op in costs]


@pytest.mark.parametrize(("computes_s", "late_s"), [(1.0, 0.25), (1e-6, 0.0)])
def test_a_call_is_late_after_computing_alone(computes_s: float, late_s: float) -> None:
    call = Collective(name="sum", kind="all_reduce", group=("data",), nbytes=1000, after=(0,))
    program = _program(Compute(name="c", seconds=computes_s), call, Wait(name="w", after=(1,)))
    plain = _step_s(program, _cluster(all_reduce=_times(0.5)))
    assert plain == pytest.approx(computes_s + 0.5, abs=2e-3)
    late = _step_s(program, _cluster(all_reduce=_times(0.5, late=0.25)))
    assert late == pytest.approx(plain + late_s)


def test_what_ops_come_after_stays_the_same_and_nothing_changes_without_costs() -> None:
    program = _program(
        Compute(name="first", seconds=1.0),
        *_ring(after=(-1, 0)),
        Compute(name="second", seconds=1.0, after=(1,)),
        Wait(name="wait", after=(2, -2)),
    )
    assert with_costs(program, _cluster(message=_times(0.5))) is program
    changed = with_costs(
        program, _cluster(**{MESSAGE: _times(0.5, late=0.1), POST: _times(0.1)})
    ).lists[0]
    original = program.lists[0]
    names = [op.name for op in changed]
    assert names == ["first", "late send", "send", "receive", "post", "second", "wait"]
    for op in original:
        (now,) = (one for one in changed if one.name == op.name)
        assert [changed[at].name for at in now.after] == [original[at].name for at in op.after]
