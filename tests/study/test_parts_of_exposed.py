"""What is exposed in simulated steps: transfer, bubble, imbalance, dependency."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.networks import star
from simulate.programs import collective, compute, one_forward_one_backward, program
from steptime.api.simulation import asked_of
from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Compute
from steptime.runs.figures import EXPOSED, PARTS, WHOLE
from steptime.simulate.step import simulate
from steptime.study.options import HowOptions
from steptime.study.scale_ideal import on_ideal_network
from steptime.study.simulate import prepare_all, study
from steptime.timeline import phases_of_steps
from steptime.workloads.spec import StepSpec

CLUSTER = cluster_named("dgx-h100")
IDEAL = on_ideal_network(CLUSTER)

layouts = st.builds(
    lambda tensor, stages, m, schedule, rest: StepSpec(
        ranks=8, layers=8, tensor=tensor, pipeline=stages, micro_batches=stages * m,
        schedule=schedule if stages > 1 else None, **rest,
    ),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1"]),
    st.sampled_from([
        {}, {"zero": 1}, {"zero": 3}, {"strategy": "overlapped"}, {"strategy": "server"},
        {"sequence_parallel": True}, {"context": 2}, {"tokens": 256},
    ]),
)  # fmt: skip


def steps_of(spec, cluster, fidelity):
    """The simulations of a step under every strategy that the layout may have."""
    how = HowOptions(fidelity=fidelity)
    try:
        asked = asked_of("gpt2-124M", cluster, spec, how)
    except UsageError:
        return None  # not every layout may have every strategy
    return study(asked, cluster, how, prepare_all(asked, cluster, how), lambda _: None)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(layouts, st.sampled_from(["message", "collective"]))
def test_an_ideal_network_leaves_no_transfer_and_one_stage_no_bubble(spec, fidelity):
    for cluster in (CLUSTER, IDEAL):
        found = steps_of(spec, cluster, fidelity)
        if found is None:
            return
        for name, one in found.simulations.items():
            ranks, figures = one.ranks, found.comparison.strategies[name]
            assert sum(ranks[p] for p in WHOLE) == pytest.approx(ranks["step_s"])
            assert sum(ranks[p] for p in EXPOSED) == pytest.approx(ranks["exposed_comm_s"])
            assert sum(getattr(figures, p) for p in WHOLE) == pytest.approx(one.step_s[-1])
            assert sum(getattr(figures, p) for p in EXPOSED) == pytest.approx(
                figures.exposed_comm_s
            )
            assert min(ranks[p].min() for p in PARTS) >= 0
            if cluster is IDEAL:
                assert not ranks["transfer_s"].any()
                assert one.step_s[-1] <= one.ideal_step_s * (1 + 1e-9)
                if fidelity == "collective":
                    assert one.step_s[-1] == pytest.approx(one.ideal_step_s)
            if spec.pipeline == 1:
                assert not ranks["bubble_s"].any()
            # The timeline alone says the same, of the ranks that it holds.
            rows = phases_of_steps(one.timeline, name)
            rows = rows[rows["step"] == rows["step"].max()]
            for part in PARTS:
                expected = ranks[part][rows["rank"]]
                assert rows[part.removesuffix("_s")] == pytest.approx(expected, abs=1e-12)


balanced = st.builds(
    one_forward_one_backward,
    st.integers(1, 5),
    st.integers(1, 6),
    st.floats(0.1, 2.0),
    st.floats(0.1, 2.0),
)


@settings(max_examples=15, deadline=None)
@given(balanced, st.sampled_from(["message", "collective"]), st.booleans())
def test_equal_stages_have_no_imbalance(pipeline, fidelity, ideal):
    cluster = star(pipeline.ranks, np.inf if ideal else 1e9, 0.0 if ideal else 0.05)
    found = simulate(pipeline, cluster, fidelity=fidelity, steps=3).ranks
    assert not found["imbalance_s"].any()
    if ideal:
        assert found["bubble_s"] == pytest.approx(found["exposed_comm_s"])


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (4, 4)])
def test_the_bubble_is_that_of_1f1b(stages, micro_batches):
    # (p - 1)/m of the work: Narayanan et al. 2021, section 2.2.1
    pipeline = one_forward_one_backward(stages, micro_batches, 1.0, 2.0)
    found = simulate(pipeline, star(stages, np.inf, 0.0), steps=3)
    assert found.timeline.bubble == pytest.approx((stages - 1) / micro_batches)
    assert found.ranks["bubble_s"] == pytest.approx(np.full(stages, 3.0 * (stages - 1)))


def test_a_slow_stage_makes_the_others_wait_for_it_and_for_their_bubble():
    pipeline = one_forward_one_backward(3, 4)
    slow = tuple(
        replace(op, seconds=2 * op.seconds) if isinstance(op, Compute) else op
        for op in pipeline.lists[1]
    )
    pipeline = replace(pipeline, lists=(pipeline.lists[0], slow, pipeline.lists[2]))
    found = simulate(pipeline, star(3, np.inf, 0.0), steps=3).ranks
    # The slow one works for 16 s, the others for 8. The first fills it for 1 s and drains it for 1;
    # what the last takes hides behind the second forward of the slow one.
    assert found["imbalance_s"] == pytest.approx([8, 0, 8])
    assert found["bubble_s"] == pytest.approx([2, 2, 2])
    assert found["dependency_s"] == pytest.approx([0, 0, 0])


@pytest.mark.parametrize("fidelity", ["message", "collective"])
def test_who_waits_in_a_collective_waits_for_the_rank_that_works_longer(fidelity):
    def ops(work):
        sums = collective("sum", "all_reduce", 10**9, 0, algorithm="ring")
        return (compute("work", work), sums, compute("more", 1.0, 1))

    both = program(ops(1.0), ops(3.0), class_of=[0, 1], data=2)
    found = simulate(both, star(2, 1e9, 0.0), fidelity=fidelity).ranks
    assert found["transfer_s"] == pytest.approx([1.0, 1.0])
    assert found["imbalance_s"] == pytest.approx([2.0, 0.0])
    assert found["dependency_s"].tolist() == [0, 0]
