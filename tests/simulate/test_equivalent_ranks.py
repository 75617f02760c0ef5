"""One rank of each kind tells of all: against every rank by itself."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.networks import racks, star
from simulate.programs import collective, compute, program, recv, send
from steptime.program import match_calls
from steptime.simulate.equivalent_ranks import kinds_of_ranks
from steptime.simulate.plan import make_plan
from steptime.simulate.queues import queues
from steptime.simulate.recurrence import Prices, run
from steptime.simulate.step import simulate

RANKS = 12  # tensor 2 × pipe 3 × data 2


def pipeline():
    """Three stages whose ranks sum along every axis, and send around the pipeline."""
    first, middle, last = (
        (
            compute("work", 1.0 + stage / 10),
            collective("t", "all_reduce", 10_000_000, 0, group=("tensor",), algorithm="ring"),
            *moves,
            compute("more", 0.5, *range(2, 2 + len(moves))),
            collective("d", "all_reduce", 90_000_000, -1, group=("data",), algorithm="ring"),
            compute("last", 0.1, 3 + len(moves)),
        )
        for stage, moves in enumerate(
            (
                (send("s", 10_000_000, 1, axis="pipe", stream="out"),),
                (
                    recv("r", 10_000_000, 0, axis="pipe", stream="in"),
                    send("s", 10_000_000, 2, axis="pipe", stream="out"),
                ),
                (recv("r", 10_000_000, axis="pipe", stream="in"),),
            )
        )
    )
    classes = [stage for _ in range(2) for stage in range(3) for _ in range(2)]
    return program(first, middle, last, class_of=classes, tensor=2, pipe=3, data=2)


def ring():
    """Every rank alike sends to the next and hears from the one before."""
    ops = (
        compute("work", 1.0),
        send("s", 1_000_000, 0, stream="out"),
        recv("r", 1_000_000, 0, stream="in"),
        compute("more", 1.0, 2),
    )
    return program(ops, data=RANKS)


def uneven():
    """Two stages of which one calls twice what the other calls once, along the same axis."""

    def calls(count, seconds):
        return (
            compute("work", seconds),
            *(
                collective(f"d{n}", "all_reduce", 90_000_000, group=("data",), algorithm="ring")
                for n in range(count)
            ),
        )

    return program(calls(2, 1.0), calls(1, 1.1), class_of=[0] * 6 + [1] * 6, data=6, pipe=2)


def of_instances(matching, seconds):
    """What each instance takes, from what each call takes each group that makes it."""
    found = np.empty(matching.call.size)
    for made, of_call in zip(matching.instances, seconds, strict=True):
        found[made.numbers] = of_call[made.group]
    return found


def ends(chosen, prices, steps=2):
    """When each rank op of each rank ends, of as many lists as there are ranks."""
    ranks, rank_ops = chosen.class_of.size, int(chosen.rank_ops_of[-1])
    free = np.zeros((ranks, chosen.queue_of.shape[1] - 1))
    before, found = np.zeros(rank_ops), []
    for _ in range(steps):
        after = np.empty(rank_ops)
        run(chosen, prices, free, before, after)
        found.append(after)
        before = after
    every = np.stack(found)
    return [every[:, first:last] for first, last in pairwise(chosen.rank_ops_of)]


@settings(max_examples=40, deadline=None)
@given(
    one=st.sampled_from([pipeline(), ring(), uneven()]),
    cluster=st.sampled_from([star(RANKS), racks(3, 4, trunk=3e9), racks(4, 3, trunk=1e9)]),
    slow=st.dictionaries(st.integers(0, RANKS - 1), st.sampled_from([0.5, 0.9]), max_size=3),
    order=st.sampled_from([range(RANKS), range(RANKS - 1, -1, -1), np.roll(range(RANKS), 5)]),
)
def test_a_rank_fares_as_its_kind(one, cluster, slow, order):
    speed = np.ones(RANKS)
    for device, factor in slow.items():
        speed[device] = factor
    devices = np.array(order, np.int32)
    matching = match_calls(one)
    seconds = make_plan(cluster, matching, devices, {}, priced=True).seconds
    queued = queues(one, cluster.device, speed[devices])
    alone = ends(
        queued,
        Prices(
            np.diff(matching.first),
            matching.parts_of,
            matching.instance,
            of_instances(matching, seconds),
        ),
    )
    kinds = kinds_of_ranks(queued, matching, seconds)
    of_kind = ends(kinds.queues, kinds.prices)
    for rank, kind in enumerate(kinds.of):
        assert of_kind[kind] == pytest.approx(alone[rank], rel=1e-12)


def kinds(one, cluster, speed):
    matching = match_calls(one)
    devices = np.arange(RANKS, dtype=np.int32)
    seconds = make_plan(cluster, matching, devices, {}, priced=True).seconds
    return kinds_of_ranks(queues(one, cluster.device, speed), matching, seconds).of


def test_there_are_no_more_kinds_than_ranks_differ():
    speed = np.ones(RANKS)
    assert kinds(ring(), star(RANKS), speed).max() == 0
    assert np.unique(kinds(pipeline(), star(RANKS), speed)).size == 3
    speed[4] = 0.5  # in a ring each is another number of places behind it
    assert np.unique(kinds(ring(), star(RANKS), speed)).size == RANKS


@pytest.mark.parametrize("rank", [0, 7])
def test_a_slow_device_holds_up_every_rank(rank):
    cluster = star(RANKS)
    speed = np.ones(RANKS)
    speed[rank] = 0.5
    slow = simulate(pipeline(), replace(cluster, speed=speed), fidelity="collective", steps=4)
    message = simulate(pipeline(), replace(cluster, speed=speed), steps=4)
    assert slow.step_s == pytest.approx(message.step_s, rel=0.02)
    assert slow.ranks["compute_s"].argmax() == rank


def test_thousands_of_ranks_wait_for_one():
    ranks, nbytes = 4096, 4096 * 25_000
    cluster = star(ranks, 25e9, 5e-6)
    speed = np.ones(ranks)
    speed[1234] = 0.5
    ops = (
        compute("work", 1.0),
        collective("r", "all_reduce", nbytes, 0, algorithm="ring", stream="compute"),
    )
    found = simulate(
        program(ops, data=ranks), replace(cluster, speed=speed), fidelity="collective", steps=2
    )
    # 2(p - 1) rounds of 1 µs of bytes and two latencies
    step = 2.0 + 2 * (ranks - 1) * (1e-6 + 1e-5)
    assert found.step_s == pytest.approx([step, step], rel=1e-6)
    assert found.ranks["exposed_comm_s"][1234] == pytest.approx(step - 2, rel=1e-6)
    assert found.ranks["exposed_comm_s"].max() == pytest.approx(step - 1, rel=1e-6)
    assert found.messages == 2 * (ranks - 1) * ranks
    assert found.bytes_sent == pytest.approx(2 * nbytes * (ranks - 1) / ranks)
