"""Steps whose times can be worked out by hand, at both fidelities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.networks import star
from simulate.programs import (
    collective,
    compute,
    interval,
    one_forward_one_backward,
    program,
    recv,
    send,
)
from steptime.errors import UsageError
from steptime.program import Compute, Wait
from steptime.simulate.simulation import ranks_to_show
from steptime.simulate.step import simulate
from steptime.timeline import Phase, phases_of_steps
from steptime.timeline.phases import EXPOSED

BANDWIDTH, LATENCY = 1e9, 0.25  # of a star's links: a message takes two latencies
FIDELITIES = ("message", "collective")

fidelities = pytest.mark.parametrize("fidelity", FIDELITIES)


def network(devices):
    return star(devices, BANDWIDTH, LATENCY)


def near(*times):
    return pytest.approx(times, rel=1e-12)


@fidelities
def test_communication_runs_behind_compute(fidelity):
    ops = (
        compute("a", 1.0),
        # of 2 ranks: two rounds of 1 GB, each in 0.5 s + 1 s
        collective("reduce", "all_reduce", 2_000_000_000, 0, algorithm="ring"),
        compute("b", 2.0),
        Wait(name="wait", after=(1,)),
        compute("c", 1.0, phase=Phase.UPDATE),
    )
    found = simulate(program(ops, data=2), network(2), fidelity=fidelity, steps=3)
    assert interval(found, "reduce") == near(1, 4)
    assert interval(found, "b") == near(1, 3)
    assert interval(found, "wait") == near(3, 4)
    assert interval(found, "c") == near(4, 5)
    assert interval(found, "reduce", rank=1, step=2) == near(11, 14)
    assert found.step_s == near(5, 5, 5)
    for row in found.ranks:
        assert row.item()[1:] == pytest.approx((5, 3, 1, 1, 0, 1, 0, 0, 0))
    assert found.bytes_sent.tolist() == found.bytes_received.tolist() == [2e9, 2e9]
    assert found.messages == 4
    assert found.link_bytes.tolist() == [2e9] * 4


@fidelities
def test_a_step_waits_for_what_the_step_before_still_sends(fidelity):
    ops = (
        compute("forward", 1.0, -1),
        compute("backward", 1.0),
        # each rank sends 1 GB in one round
        collective("gather", "all_gather", 2_000_000_000, 1, algorithm="ring"),
    )
    found = simulate(program(ops, data=2), network(2), fidelity=fidelity, steps=3)
    assert interval(found, "gather") == near(2, 3.5)
    assert interval(found, "forward", step=1) == near(3.5, 4.5)
    assert found.step_s == near(2, 3.5, 3.5)
    assert found.ranks["exposed_comm_s"] == near(1.5, 1.5)


@fidelities
def test_a_rank_that_is_late_makes_the_others_wait(fidelity):
    cluster = network(2)
    slow = replace(cluster, speed=np.array([1.0, 0.5]))
    ops = (compute("a", 1.0), collective("r", "all_reduce", 2_000_000_000, 0, algorithm="ring"))
    found = simulate(program((*ops, Wait(name="w", after=(1,))), data=2), slow, fidelity=fidelity)
    assert interval(found, "r", rank=0) == near(1, 5)
    assert interval(found, "r", rank=1) == near(2, 5)
    assert found.ranks["compute_s"] == near(1, 2)
    assert found.ranks["exposed_comm_s"] == near(4, 3)


@fidelities
def test_streams_run_beside_each_other_and_each_in_order(fidelity):
    ops = (
        compute("a", 2.0, stream="x"),
        compute("b", 1.0, stream="x"),
        compute("c", 1.0, stream="y"),
        compute("d", 1.0, 1, stream="y"),
        compute("e", 0.0, 3),
    )
    found = simulate(program(ops, data=1), network(1), fidelity=fidelity, steps=1)
    assert interval(found, "b") == near(2, 3)
    assert interval(found, "c") == near(0, 1)
    assert interval(found, "d") == near(3, 4)
    assert interval(found, "e") == near(4, 4)


@fidelities
def test_a_message_goes_when_both_ends_are_reached(fidelity):
    first = (compute("a", 1.0), send("out", 1_000_000_000, 0))
    second = (
        compute("b", 3.0, stream="x"),
        recv("in", 1_000_000_000, 0),
        compute("after", 1.0, 1),
    )
    both = program(first, second, class_of=[0, 1], data=2)
    found = simulate(both, network(2), fidelity=fidelity, steps=1)
    assert interval(found, "out", rank=0) == near(1, 4.5)
    assert interval(found, "in", rank=1) == near(3, 4.5)
    assert interval(found, "after", rank=1) == near(4.5, 5.5)
    assert found.bytes_sent.tolist() == [1e9, 0]
    assert found.bytes_received.tolist() == [0, 1e9]
    assert found.link_bytes.tolist() == [1e9, 0, 0, 1e9]
    assert found.timeline.messages.tolist() == [(0, 1, 3.0, 4.5, 10**9)]
    assert found.pairs.tolist() == [[0, 1e9], [0, 0]]


@fidelities
def test_a_chain_of_messages(fidelity):
    middle = (recv("in", 0), send("out", 0, 0))
    ranks = program((send("out", 0),), middle, (recv("in", 0),), class_of=[0, 1, 1, 2], data=4)
    found = simulate(ranks, network(4), fidelity=fidelity, steps=1)
    assert interval(found, "in", rank=3) == near(0, 1.5)


@fidelities
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 1), (4, 8), (4, 2)])
def test_the_bubble_of_a_pipeline(fidelity, stages, micro_batches):
    # (p - 1)/(m + p - 1) of the step is idle: Narayanan et al. 2021, section 2.2.1
    pipeline = one_forward_one_backward(stages, micro_batches, 1.0, 2.0)
    cluster = star(stages, np.inf, 0.0)
    found = simulate(pipeline, cluster, fidelity=fidelity, steps=1)
    rows = found.timeline.intervals
    whole = rows[rows["phase"] != Phase.STEP]["end"].max()
    assert whole == pytest.approx(3.0 * (micro_batches + stages - 1))
    busy = found.ranks["compute_s"]
    idle = 1 - busy / whole
    assert idle == pytest.approx((stages - 1) / (micro_batches + stages - 1))


def test_without_stages_no_wait_is_a_bubble():
    """A second each, one after the other; only stages of a pipeline have a bubble then."""
    for axis, bubble in (("data", 0.0), ("pipeline", 1.0)):
        first = compute("a", 1.0), send("out", 0, 0, axis=axis), recv("back", 0, axis=axis)
        second = recv("in", 0, axis=axis), compute("b", 1.0, 0), send("home", 0, 1, axis=axis)
        lists = (*first, Wait(name="w", after=(2,))), second
        both = program(*lists, class_of=[0, 1], **{axis: 2})
        assert simulate(both, star(2, np.inf, 0.0)).timeline.bubble == bubble, axis


@fidelities
def test_groups_of_one_rank_take_no_time(fidelity):
    ops = (collective("r", "all_reduce", 100, group=("tensor",)), compute("c", 1.0, 0))
    found = simulate(program(ops, tensor=1, data=2), network(2), fidelity=fidelity)
    assert found.step_s == near(1, 1)
    assert found.messages == 0
    assert found.bytes_sent.tolist() == [0, 0]


@fidelities
def test_a_program_may_do_nothing(fidelity):
    found = simulate(program((), data=2), network(2), fidelity=fidelity)
    assert found.step_s.tolist() == [0, 0]


def test_compute_takes_the_longer_of_its_flops_and_its_bytes():
    # the star's devices: 1 TFLOP/s in fp32 and 100 GB/s of memory
    cluster = network(1)
    device = replace(cluster.device, efficiency=0.5)
    slow = replace(cluster, device=device, speed=np.array([0.5]))
    for op, seconds in (
        (Compute(name="c", flops=1e12, nbytes=1e9), 4.0),
        (Compute(name="c", flops=1e9, nbytes=1e12), 20.0),
        (Compute(name="c", nbytes=1e11, dtype="of no matter"), 2.0),
        (Compute(name="c", seconds=0.5, flops=1e15), 1.0),
    ):
        assert simulate(program((op,), data=1), slow, steps=1).step_s == near(seconds)


def test_kept_messages_are_between_ranks_and_inside_their_ops():
    cluster = replace(network(3), order=np.array([2, 0, 1], np.int32))
    ops = (compute("a", 1.0), collective("r", "all_reduce", 3_000, 0, algorithm="ring"))
    found = simulate(program(ops, data=3), cluster, steps=1, keep_messages=True)
    messages = found.timeline.messages
    assert len(messages) == found.messages == 12
    assert (messages["dst"] == (messages["src"] + 1) % 3).all()
    assert set(messages["bytes"].tolist()) == {1000}
    assert messages["sent"].min() == 1.0
    assert messages["received"].max() == interval(found, "r")[1]
    assert not len(simulate(program(ops, data=3), cluster).timeline.messages)


def test_kept_messages_of_a_group_are_between_its_own_ranks():
    cluster = replace(network(4), order=np.array([1, 3, 0, 2], np.int32))
    call = collective("r", "all_reduce", 1000, group=("data",), algorithm="ring")
    found = simulate(program((call,), tensor=2, data=2), cluster, steps=1, keep_messages=True)
    pairs = found.timeline.messages[["src", "dst"]].tolist()
    assert set(pairs) == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_an_algorithm_that_is_asked_for_goes_before_the_op_s_own():
    ops = (collective("r", "all_reduce", 1000, algorithm="ring"),)
    one = program(ops, data=4)
    assert simulate(one, network(4)).messages == 24
    named = {"all_reduce": "recursive_doubling"}
    assert simulate(one, network(4), algorithms=named).messages == 8


def test_by_default_the_fastest_algorithm_is_taken():
    def step(nbytes, name):
        ops = (collective("r", "all_reduce", nbytes, algorithm=name), Wait(name="w", after=(0,)))
        return float(simulate(program(ops, data=4), network(4), steps=1).step_s[0])

    for nbytes in (8, 10_000_000_000):
        names = ("ring", "recursive_doubling", "rabenseifner", "double_tree", "circulant")
        assert step(nbytes, "") <= min(step(nbytes, name) for name in names)


@pytest.mark.parametrize(
    ("ops", "more", "words"),
    [
        ((Compute(name="c", flops=1, dtype="fp4"),), {}, "'c' computes in fp4, .* it has fp32"),
        ((collective("r", "all_sum", 8),), {}, "no collective 'all_sum'"),
        ((collective("r", "all_reduce", 8, algorithm="rings"),), {}, "no all_reduce 'rings'"),
        ((collective("r", "all_reduce", 8),), {"algorithms": {"all_reduce": "x"}}, "no all_reduce"),
        ((collective("r", "all_reduce", 8),), {"algorithms": {"reduces": "x"}}, "no collective"),
        ((), {"fidelity": "exact"}, "no fidelity 'exact'"),
        ((), {"steps": 0}, "0 steps"),
        (
            (collective("r", "all_gather", 8, algorithm="recursive_doubling"),),
            {},
            "cannot serve 3 ranks",
        ),
    ],
)
def test_bad_input_is_refused(ops, more, words):
    with pytest.raises(UsageError, match=words):
        simulate(program(ops, data=3), network(3), **more)


def test_more_ranks_than_places_are_refused():
    with pytest.raises(UsageError, match="4 ranks do not fit on test, which has 3 places"):
        simulate(program((), data=4), network(3))


def test_a_step_that_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr("steptime.host_memory.available_bytes", lambda: 100)
    with pytest.raises(UsageError, match=r"step on 3 ranks, 3 ops in all, needs .* of memory"):
        simulate(program((compute("c", 1.0),), data=3), network(3))


def test_a_step_that_does_not_fit_into_the_cgroup_is_refused(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    monkeypatch.setattr("steptime.host_memory.CGROUPS", tmp_path)
    with pytest.raises(UsageError, match="this process may take only 100 B more"):
        simulate(program((compute("c", 1.0),), data=3), network(3))


@fidelities
def test_ranks_that_wait_for_each_other_for_ever_are_told(fidelity):
    ops = (send("out", 8), recv("in", 8))
    words = (
        "step never ends: rank 0 in 'out', which waits for rank 1 in 'out', which waits for "
        "rank 0 in 'out';"
    )
    with pytest.raises(UsageError, match=words):
        simulate(program(ops, data=2), network(2), fidelity=fidelity)


def test_a_circle_through_streams_and_collectives_is_told():
    first = (
        collective("one", "all_reduce", 8, stream="x"),
        collective("two", "all_reduce", 8, group=("tensor", "data"), stream="x"),
    )
    second = (
        collective("two", "all_reduce", 8, group=("tensor", "data"), stream="y"),
        compute("between", 1.0, 0),
        collective("one", "all_reduce", 8, 1, stream="x"),
    )
    both = program(first, second, class_of=[0, 1], tensor=1, data=2)
    words = (
        "rank 0 in 'one', which waits for rank 1 in 'one', which waits for rank 1 in 'between', "
        "which waits for rank 1 in 'two', which waits for rank 0 in 'one';"
    )
    with pytest.raises(UsageError, match=words):
        simulate(both, network(2))


def test_as_many_ranks_as_a_timeline_holds_are_all_shown():
    assert ranks_to_show(program((), data=64)).tolist() == list(range(64))
    assert ranks_to_show(program((), data=65)).tolist() == [0]


def test_of_many_ranks_one_of_each_class_is_shown():
    ops = (compute("a", 1.0),)
    other = (compute("a", 2.0),)
    both = program(ops, other, class_of=[0] * 50 + [1] * 50, data=100)
    found = simulate(both, network(100), fidelity="collective")
    assert found.shown_ranks.tolist() == [0, 50]
    assert set(found.timeline.intervals["rank"].tolist()) == {0, 50}
    assert found.timeline.ranks == 100
    assert found.ranks["compute_s"].tolist() == [1.0] * 50 + [2.0] * 50


PHASES = st.sampled_from([Phase.COMPUTE, Phase.UPDATE, Phase.OTHER])
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 1.75])
STREAMS = st.sampled_from(["compute", "comm", "more"])


@st.composite
def lists(draw):
    """Ops that every rank of a group has alike; only how long they compute differs."""
    size = draw(st.integers(1, 8))
    ops = []
    for number in range(size):
        after = draw(st.sets(st.integers(-size, number - 1), max_size=2))
        kind = draw(st.sampled_from(["compute", "wait", "collective"]))
        stream = draw(STREAMS)
        if kind == "compute":
            seconds, phase = draw(SECONDS), draw(PHASES)
            ops.append(compute(f"op {number}", seconds, *after, phase=phase, stream=stream))
        elif kind == "wait":
            ops.append(Wait(name=f"op {number}", after=tuple(after), stream=stream))
        else:
            nbytes = draw(st.sampled_from([0, 1_000_000_000]))
            ops.append(
                collective(
                    f"op {number}", "all_reduce", nbytes, *after, algorithm="ring", stream=stream
                )
            )
    return tuple(ops)


@settings(max_examples=60, deadline=None)
@given(ops=lists(), fidelity=st.sampled_from(FIDELITIES), slow=st.sampled_from([1.0, 0.5]))
def test_ranks_are_divided_as_every_timeline_is(ops, fidelity, slow):
    cluster = replace(network(2), speed=np.array([1.0, slow]))
    found = simulate(program(ops, data=2), cluster, fidelity=fidelity, steps=3)
    phases = phases_of_steps(found.timeline, "step")
    last = phases[phases["step"] == 2]
    for field in ("compute", "exposed_comm", "update", "other", *EXPOSED):
        assert found.ranks[f"{field}_s"] == pytest.approx(last[field], abs=1e-9)
    assert found.ranks["step_s"] == pytest.approx(last["duration"], abs=1e-9)
    total = sum(found.ranks[f"{f}_s"] for f in ("compute", "exposed_comm", "update", "other"))
    assert total == pytest.approx(found.ranks["step_s"], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(ops=lists(), fidelity=st.sampled_from(FIDELITIES))
def test_streams_are_in_order_and_ops_come_after_what_they_name(ops, fidelity):
    found = simulate(program(ops, data=2), network(2), fidelity=fidelity, steps=3)
    free = dict.fromkeys(["compute", "comm", "more"], 0.0)
    for step in range(3):
        for number, op in enumerate(ops):
            start, end = interval(found, f"op {number}", step=step)
            named = [(step, a) if a >= 0 else (step - 1, a + len(ops)) for a in op.after]
            ends = [interval(found, f"op {a}", step=s)[1] for s, a in named if s >= 0]
            ready = max([free[op.stream], *ends])
            assert start == pytest.approx(free[op.stream] if isinstance(op, Wait) else ready)
            assert end >= ready - 1e-9
            free[op.stream] = end
