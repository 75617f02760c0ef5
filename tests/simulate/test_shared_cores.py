"""Ranks that share the cores of a host, and what calls work on them, by hand.

Cores are handed out for 3 ms at a time: among ops of seconds that is evenly, or nearly so.
"""

from dataclasses import replace

import pytest

from cluster.descriptions import described
from simulate.programs import collective, compute, program, recv, send
from steptime.cluster import CallTimes, Cluster
from steptime.program import Program, Wait
from steptime.simulate.step import simulate
from steptime.simulate.work import with_work
from steptime.timeline import phases_of_steps

TURN_S = 4e-3


def _cluster(devices: int, cores: float, **calls: CallTimes) -> Cluster:
    timed = {kind: (one,) for kind, one in calls.items()}
    return replace(described(1, devices), cores=cores, calls=timed)


def _times(seconds: float, work: float, rest: float, ranks: int = 2) -> CallTimes:
    return CallTimes(
        ranks=ranks,
        sizes=(1e3, 1e6),
        seconds=(seconds,) * 2,
        work=(work,) * 2,
        rest=(rest,) * 2,
        algorithm="ring",
    )


def _on_cores(*lists: list[object], class_of: list[int] | None = None, **axes: int) -> Program:
    return replace(program(*map(tuple, lists), class_of=class_of, **axes), on_cores=True)


def _last_s(step: Program, cluster: Cluster) -> float:
    return float(simulate(step, cluster).step_s[-1])


@pytest.mark.parametrize(
    ("ranks", "cores", "step_s"), [(2, 2.0, 1.0), (2, 1.0, 2.0), (4, 2.0, 2.0), (4, 3.0, 4 / 3)]
)
def test_ranks_share_cores_evenly_and_none_gets_more_than_one(
    ranks: int, cores: float, step_s: float
) -> None:
    step = _on_cores([compute("c", 1.0)], data=ranks)
    assert _last_s(step, _cluster(ranks, cores)) == pytest.approx(step_s, abs=TURN_S)


def test_a_rank_has_the_core_alone_when_the_other_is_done() -> None:
    step = _on_cores([compute("short", 1.0)], [compute("long", 3.0)], class_of=[0, 1], data=2)
    found = simulate(step, _cluster(2, 1.0), steps=1)
    assert found.ranks["step_s"] == pytest.approx([2.0, 4.0], abs=TURN_S)


def test_short_ops_run_one_after_another_in_the_order_in_which_they_came() -> None:
    """Three of 1 ms on one core, each shorter than a turn: not all at the end of 3 ms."""
    step = _on_cores([compute("c", 1e-3)], data=3)
    found = simulate(step, _cluster(3, 1.0), steps=1)
    assert sorted(found.ranks["step_s"].tolist()) == pytest.approx([1e-3, 2e-3, 3e-3])


def test_a_long_op_gives_its_core_up_after_its_turn() -> None:
    """5 ms and 1 ms on one core: 3 ms, the short one and what is left, or the short one first."""
    step = _on_cores([compute("long", 5e-3)], [compute("short", 1e-3)], class_of=[0, 1], data=2)
    long_s, short_s = simulate(step, _cluster(2, 1.0), steps=1).ranks["step_s"].tolist()
    assert long_s == pytest.approx(6e-3)
    assert short_s == pytest.approx(1e-3) or short_s == pytest.approx(4e-3)


def test_nothing_is_shared_where_the_seconds_are_those_of_the_clock_or_cores_are_unknown() -> None:
    step = _on_cores([compute("c", 1.0)], data=4)
    assert _last_s(replace(step, on_cores=False), _cluster(4, 1.0)) == pytest.approx(1.0)
    assert _last_s(step, replace(_cluster(4, 1.0), cores=0.0)) == pytest.approx(1.0)


def test_what_a_call_works_delays_what_others_compute() -> None:
    """Two ranks sum up while two others compute, on four cores and on one."""
    call = collective("sum", "all_reduce", 1000, group=("tensor",))
    lists = [call, Wait(name="wait", after=(0,))], [compute("c", 2.0)]
    step = _on_cores(*lists, class_of=[0, 0, 1, 1], tensor=2, data=2)
    calls = {"all_reduce": _times(1.5, work=1.0, rest=0.5)}
    four = _cluster(4, 4.0, **calls)
    found = simulate(step, four, steps=1).ranks["step_s"]
    assert found == pytest.approx([1.25, 1.25, 2.0, 2.0], rel=1e-3)
    # Half of the cores are idle: the rest of 0.5 s is over after 0.25. Where the only one is busy
    # it is over at once. Then all four share it, until the two of the call have had it for 1 s.
    one = simulate(step, _cluster(4, 1.0, **calls), steps=1).ranks["step_s"]
    assert one == pytest.approx([4.0, 4.0, 6.0, 6.0], abs=2 * TURN_S)


def test_a_call_takes_alone_what_was_measured() -> None:
    """Four ranks on two cores: each works 1 s for it, which takes 2 s, and 0.5 s none does."""
    step = _on_cores([collective("sum", "all_reduce", 1000), Wait(name="w", after=(0,))], data=4)
    times = _times(2.5, work=1.0, rest=0.5, ranks=4)
    assert _last_s(step, _cluster(4, 2.0, all_reduce=times)) == pytest.approx(2.5, rel=1e-3)


def test_each_end_of_a_message_works_half_of_it() -> None:
    ring = [send("send", 1000, stream="out"), recv("receive", 1000, stream="in")]
    step = _on_cores([*ring, Wait(name="wait", after=(0, 1))], data=2)
    cluster = _cluster(2, 2.0, message=_times(1.5, work=1.0, rest=0.5))
    works = [op.seconds for op in with_work(step, cluster).lists[0] if op.name.startswith("work")]
    assert works == [0.5, 0.5]
    assert _last_s(step, cluster) == pytest.approx(1.5, rel=1e-3)


def test_what_came_after_a_call_comes_after_its_work() -> None:
    ops = [
        compute("first", 1.0, -1),
        collective("sum", "all_reduce", 1000, 0),
        compute("second", 1.0, 0),
        compute("third", 1.0, 1),
    ]
    step = _on_cores(ops, data=2)
    made = with_work(step, _cluster(2, 2.0, all_reduce=_times(1.0, work=0.5, rest=0.5))).lists[0]
    assert [op.name for op in made] == ["first", "sum", "rest sum", "work sum", "second", "third"]
    assert [op.after for op in made] == [(-1,), (0,), (), (), (0,), (3,)]


def test_the_rest_of_a_call_is_communication_and_hides_behind_computing() -> None:
    ops = [collective("sum", "all_reduce", 1000, -1), compute("c", 1.0), Wait(name="w", after=(0,))]
    times = _times(0.75, work=0.25, rest=0.5)
    found = simulate(_on_cores(ops, data=2), _cluster(2, 8.0, all_reduce=times))
    for phases in (found.ranks, phases_of_steps(found.timeline, "step")):
        compute_s = phases["compute_s" if "compute_s" in phases.dtype.names else "compute"]
        assert compute_s == pytest.approx(1.0)


def test_calls_of_kinds_that_were_not_measured_work_nothing() -> None:
    step = _on_cores([collective("sum", "all_reduce", 1000)], data=2)
    assert with_work(step, _cluster(2, 2.0)).lists == step.lists
    alone = _on_cores([collective("sum", "all_reduce", 1000, group=("tensor",))], tensor=1, data=2)
    assert with_work(alone, _cluster(2, 2.0, all_reduce=_times(1, 1, 1))).lists == alone.lists


def test_the_ideal_step_has_the_cores_and_none_of_the_calls() -> None:
    ops = [compute("c", 1.0), collective("sum", "all_reduce", 1000, 0), Wait(name="w", after=(1,))]
    cluster = _cluster(4, 2.0, all_reduce=_times(2.5, work=1.0, rest=0.5, ranks=4))
    found = simulate(_on_cores(ops, data=4), cluster)
    assert found.step_s[-1] == pytest.approx(4.5, abs=2 * TURN_S)
    assert found.ideal_step_s == pytest.approx(2.0, abs=TURN_S)


def test_by_whole_collectives_every_rank_has_its_part_of_the_cores_all_the_time() -> None:
    ops = [compute("c", 1.0), collective("sum", "all_reduce", 1000, 0), Wait(name="w", after=(1,))]
    cluster = _cluster(4, 2.0, all_reduce=_times(2.5, work=1.0, rest=0.5, ranks=4))
    found = simulate(_on_cores(ops, data=4), cluster, fidelity="collective")
    assert found.step_s[-1] == pytest.approx(4.5, rel=5e-3)
