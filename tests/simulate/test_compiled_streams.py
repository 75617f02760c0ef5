"""The streams of all ranks in compiled code end their ops when those in plain Python do."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.cases import cases
from simulate.networks import star
from simulate.plain_streams import PlainStreams
from simulate.programs import collective, compute, program
from steptime.program import Compute, Op, Wait
from steptime.simulate import events
from steptime.simulate.cores import idle_cores, no_cores
from steptime.simulate.events import run_steps
from steptime.simulate.network import rounds
from steptime.simulate.network.simulator import NetworkSimulator
from steptime.simulate.network.storage import empty_network
from steptime.simulate.prepare import Prepared, prepare

STEPS = 3


def reductions(*sizes: int, ranks: int = 4):
    """A program of all_reduces, each after some computation."""
    ops = []
    for size in sizes:
        ops.append(compute(f"before {len(ops)}", 1e-5 * len(ops)))
        ops.append(collective(f"reduce {len(ops)}", "all_reduce", size, len(ops) - 1))
    return program(ops, class_of=[0] * ranks, data=ranks)


def compiled_ends(prepared: Prepared):
    cluster, queued = prepared.cluster, prepared.queues
    streams = queued.queue_of.shape[1] - 1
    cores = idle_cores(cluster, prepared.devices, streams) if prepared.on_cores else no_cores()
    network = empty_network(cluster, keep=False)
    steps = prepared.steps
    return run_steps(queued, prepared.matching, prepared.plan, network, cluster, steps, cores)


def assert_as_plain(prepared: Prepared):
    cluster = prepared.cluster
    network = NetworkSimulator(cluster)
    plain = PlainStreams(
        prepared.queues,
        prepared.matching,
        prepared.plan,
        network,
        prepared.steps,
        cluster.host_of[prepared.devices].tolist(),
        cluster.cores if prepared.on_cores else inf,
    )
    plain.run()
    ends, after = compiled_ends(prepared)
    np.testing.assert_allclose(ends, plain.ends, rtol=1e-9, atol=1e-18)
    np.testing.assert_allclose(after.links["nbytes"], network.link_bytes, rtol=1e-9)
    assert after.counts["messages"][0] == network.messages


@settings(max_examples=40, deadline=None)
@given(cases("message"))
def test_random_steps_end_as_in_plain_python(case):
    assert_as_plain(prepare(case.program, case.cluster, algorithms=case.algorithms, steps=STEPS))


def longer(op: Op, times: float) -> Op:
    """Some computing beyond a slice of time, and a wait that goes on."""
    if isinstance(op, Compute) and op.seconds:
        return replace(op, seconds=times * op.seconds)
    return replace(op, seconds=times * 1e-5) if isinstance(op, Wait) else op


@settings(max_examples=60, deadline=None)
@given(cases("message"), st.sampled_from([1, 2, 3]), st.sampled_from([1, 100]))
def test_random_steps_on_cores_that_ranks_share_end_as_in_plain_python(case, cores, times):
    lists = tuple(tuple(longer(op, times) for op in ops) for ops in case.program.lists)
    program = replace(case.program, lists=lists, on_cores=True)
    cluster = replace(case.cluster, cores=float(cores))
    prepared = prepare(program, cluster, algorithms=case.algorithms, steps=STEPS)
    assert prepared.on_cores
    assert_as_plain(prepared)


@pytest.mark.parametrize("kept", [0, 1 << 20])
@pytest.mark.parametrize("batch", [7, 1 << 13])
def test_moves_may_come_in_parts_and_be_forgotten(batch, kept, monkeypatch):
    """What is read, kept and appended at a time changes no time."""
    monkeypatch.setattr(rounds, "BATCH", batch)
    monkeypatch.setattr(events, "_MOST_KEPT", kept)
    step = reductions(10**6, 10**5, 10**6, ranks=6)
    for names in ({"all_reduce": "ring"}, {"all_reduce": "double_tree"}):
        one = prepare(step, star(6, 1e9, 1e-6), algorithms=names, steps=STEPS)
        assert_as_plain(one)


def test_what_was_sent_before_is_not_made_again(monkeypatch):
    """A group's moves are read once, however often it makes the call."""
    prepared = prepare(reductions(*[10**6] * 20), star(4, 1e9, 1e-6), steps=STEPS)
    made = []
    of_collective = events.MoveMaker.of_collective

    def counted(maker, schedule, devices, nbytes):
        made.append(nbytes)
        return of_collective(maker, schedule, devices, nbytes)

    monkeypatch.setattr(events.MoveMaker, "of_collective", counted)
    compiled_ends(prepared)
    assert made == [10**6]


def test_owners_of_finished_collectives_are_used_again():
    step = reductions(*[10**6] * 50)
    _, after = compiled_ends(prepare(step, star(4, 1e9, 1e-6), steps=STEPS))
    assert after.counts["owners"][0] <= 3  # that of the streams, and at most two at a time
