"""Steps on the ideal network, whose length a person can work out."""

import numpy as np
import pytest

from steptime.cluster.files import cluster_named
from steptime.program import Collective, Compute, Program, Recv, Send
from steptime.simulate.step import simulate
from steptime.strategies import live_strategies
from steptime.study.scale_ideal import (
    Work,
    ideal_usage,
    in_turn,
    on_ideal_network,
    usage_of_simulation,
    work_of_steps,
)
from steptime.timeline import Phase
from steptime.timeline.efficiency import Usage, efficiency
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import Transformer

EXACT = 1e-9
NANO = Transformer(name="nano", layers=4, hidden=64, heads=4, vocabulary=256, context=64)


def chain(ranks: int, seconds: float, nbytes: int) -> Program:
    """Each rank computes when the one before it has sent; all of it in series."""
    lists = []
    for rank in range(ranks):
        ops = []
        if rank:
            ops.append(Recv(name="recv", axis="x", by=-1, nbytes=nbytes))
        after = (0,) if rank else ()
        ops.append(Compute(name="work", seconds=seconds, after=after))
        if rank < ranks - 1:
            ops.append(Send(name="send", axis="x", by=1, nbytes=nbytes, after=(len(ops) - 1,)))
        ops.append(Collective(name="end", kind="barrier", group=("x",), nbytes=0, after=after))
        ops.append(Compute(name="end", seconds=0.0, after=(len(ops) - 1,)))
        lists.append(tuple(ops))
    return Program(
        name="chain",
        axes={"x": ranks},
        lists=tuple(lists),
        class_of=np.arange(ranks, dtype=np.int32),
    )


def test_a_serialised_chain_is_serialisation_and_its_messages_are_transfer():
    cluster = cluster_named("office-10gbe")
    program = chain(4, 0.01, 10_000_000)
    real = usage_of_simulation(simulate(program, cluster, steps=1))
    ideal = usage_of_simulation(simulate(program, on_ideal_network(cluster), steps=1))
    assert ideal.run_time_s == pytest.approx(0.04, abs=EXACT)
    found = efficiency(real, ideal)
    assert found.load_balance == pytest.approx(1.0, abs=EXACT)
    assert found.serialisation_efficiency == pytest.approx(0.25, abs=EXACT)
    assert found.transfer_efficiency == pytest.approx(0.04 / real.run_time_s, abs=EXACT)
    sent = 3 * 10_000_000 / 1.175e9
    assert real.run_time_s == pytest.approx(0.04 + sent, rel=0.01)


def test_pure_transfer_has_no_serialisation():
    cluster = cluster_named("office-10gbe")
    program = data_parallel(NANO, "replicated", ranks=4, batch=4, compute_s=0.01, update_s=0.001)
    real = usage_of_simulation(simulate(program, cluster))
    ideal = usage_of_simulation(simulate(program, on_ideal_network(cluster)))
    found = efficiency(real, ideal)
    assert found.load_balance == pytest.approx(1.0, abs=EXACT)
    assert found.serialisation_efficiency == pytest.approx(1.0, abs=EXACT)
    assert found.transfer_efficiency == pytest.approx(0.011 / real.run_time_s, abs=EXACT)
    assert found.transfer_efficiency < 0.9


def some_work(steps: int, ranks: int) -> Work:
    random = np.random.default_rng(3)
    return Work(
        compute=random.uniform(0.02, 0.03, (steps, ranks)),
        update=random.uniform(0.001, 0.002, (steps, ranks)),
        other=random.uniform(1e-4, 2e-4, (steps, ranks)),
    )


def test_measured_steps_take_what_their_slowest_rank_took_between_two_meetings():
    # Of the strategies that meet twice: all have their gradients when the slowest has computed,
    # and their parameters when the slowest has updated.
    work = some_work(5, 4)
    program = data_parallel(NANO, "sliced", ranks=4, batch=4, compute_s=1.0, update_s=1.0)
    usage = ideal_usage(program, work)
    expected = (work.other + work.compute).max(axis=1).sum() + work.update.max(axis=1).sum()
    assert usage.run_time_s == pytest.approx(expected, abs=EXACT)
    assert usage.useful_s == pytest.approx((work.compute + work.update).sum(axis=0), abs=EXACT)
    assert usage.steps == 5


@pytest.mark.parametrize("name", live_strategies())
def test_the_work_of_every_strategy_is_kept_and_never_takes_less_than_it(name):
    work = some_work(3, 3)
    program = data_parallel(NANO, name, ranks=3, batch=3, compute_s=1.0, update_s=1.0)
    usage = ideal_usage(program, work)
    own = (work.compute + work.update).sum(axis=0)
    assert usage.useful_s == pytest.approx(own, abs=EXACT)
    apart = (work.other + work.compute).max(axis=1).sum() + work.update.max(axis=1).sum()
    in_turns = work.update.sum(axis=1).sum() - work.update.max(axis=1).sum()
    assert own.max() <= usage.run_time_s <= apart + in_turns + EXACT


def test_one_rank_waits_for_nobody():
    work = some_work(4, 1)
    program = data_parallel(NANO, "overlapped_sharded", ranks=1, batch=1, compute_s=1, update_s=1)
    usage = ideal_usage(program, work)
    everything = float((work.compute + work.update + work.other).sum())
    assert usage.run_time_s == pytest.approx(everything, abs=EXACT)


def test_what_comes_after_an_op_of_the_step_before_still_does():
    program = data_parallel(
        NANO, "overlapped_sharded", ranks=2, batch=2, compute_s=1.0, update_s=1.0, bucket_bytes=4096
    )
    ops = program.lists[0]
    back = [(number, op.after) for number, op in enumerate(ops) if any(a < 0 for a in op.after)]
    assert back
    both = in_turn(program, some_work(2, 2)).lists[0]
    assert len(both) == 2 * (len(ops) + 1)
    for number, after in back:
        assert both[1 + number].after == tuple(1 + a for a in after if a >= 0)
        names = [both[place].name for place in both[len(ops) + 2 + number].after]
        assert names == [ops[place].name for place in after]


def test_work_is_read_off_a_timeline():
    cluster = cluster_named("office-10gbe")
    program = data_parallel(NANO, "replicated", ranks=2, batch=2, compute_s=0.01, update_s=0.002)
    simulation = simulate(program, cluster, steps=4)
    work = work_of_steps(simulation.timeline, "replicated", 1)
    assert work.compute == pytest.approx(np.full((3, 2), 0.01), abs=EXACT)
    assert work.update == pytest.approx(np.full((3, 2), 0.002), abs=EXACT)
    assert [op.phase for op in in_turn(program, work).lists[0][:1]] == [Phase.OTHER]


def test_threads_and_steps_are_carried_along():
    program = data_parallel(NANO, "replicated", ranks=2, batch=2, compute_s=1.0, update_s=1.0)
    usage = ideal_usage(program, some_work(2, 2), threads=3)
    assert isinstance(usage, Usage)
    assert (usage.steps, usage.threads, usage.workers) == (2, 3, 6)
