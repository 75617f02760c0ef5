"""The closed form of a step against figures made by hand and stages cut by brute force."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.cluster import Device, cluster_named
from steptime.predict.account import TERMS
from steptime.predict.estimate import Stages, estimate
from steptime.predict.layouts import LAYOUT, PRECISIONS, RECOMPUTES, SCHEDULES, Layouts, ranks_of
from steptime.predict.machine import Machine
from steptime.predict.software import Software, software_named, software_names
from steptime.simulate.nccl import Network
from steptime.workloads.models import Transformer, model_named, transformer_of

PEAK = 1e15
FREE = Network(host_devices=8, inside=1e30, between=1e30, inside_s=0.0, between_s=0.0)
ONLY_PRODUCTS = Software(
    name="only products",
    title="",
    source="",
    passes=0.0,
    inner_passes=0.0,
    loss_passes=0.0,
    optimizer_bytes=0.0,
    held_bytes=0.0,
    block_s=0.0,
    call_s=0.0,
    contention=0.0,
)
MACHINE = Machine(
    name="made",
    device=Device(
        name="made", flops={"bf16": PEAK, "fp32": PEAK}, memory=80e9, memory_bandwidth=1e30
    ),
    devices=1 << 20,
    network=FREE,
    software=ONLY_PRODUCTS,
)
REAL = replace(
    MACHINE,
    device=replace(MACHINE.device, memory_bandwidth=2e12, efficiency=0.7),
    network=Network(host_devices=8, inside=230e9, between=24e9),
    software=Software(name="usual", title="", source=""),
)


def layout(**said: int) -> Layouts:
    """One layout; what is not said is 1, in bf16 and 1f1b."""
    rows = np.ones(1, LAYOUT)
    rows["zero"] = rows["recompute"] = 0
    rows["sequence_parallel"] = False
    rows["tokens"] = 1024
    rows["precision"] = PRECISIONS.index("bf16")
    rows["schedule"] = SCHEDULES.index("1f1b")
    for name, value in said.items():
        rows[name] = value
    return rows


def model(layers: int = 8, hidden: int = 1024) -> Transformer:
    return Transformer(
        name="made", layers=layers, hidden=hidden, heads=16, context=1024, vocabulary=32768
    )


def test_products_of_a_rank_are_those_of_the_model_divided() -> None:
    one = estimate(model(), layout(micro_batches=4), MACHINE)
    h, tokens = 1024, 4 * 1024
    flops = 6 * tokens * (8 * 12 * h * h + 32768 * h)
    assert one.terms["products"] == pytest.approx(flops / PEAK)
    shared = estimate(model(), layout(micro_batches=4, tensor=4), MACHINE)
    assert shared.terms["products"] == pytest.approx(flops / PEAK / 4)


def test_the_head_of_an_odd_vocabulary_is_as_quick_as_that_of_the_padded_one() -> None:
    machine = replace(MACHINE, device=cluster_named("dgx-a100").device)
    odd, padded = (
        estimate(replace(model(), vocabulary=words), layout(), machine).terms["products"]
        for words in (50257, 50304)
    )
    assert odd == padded


def test_bubble_is_one_micro_batch_through_each_other_stage() -> None:
    # With a small head all stages are alike; 1f1b then waits (p - 1) / m of what it works.
    flat = replace(model(), vocabulary=1)  # padded to 64
    one = estimate(flat, layout(micro_batches=8, pipeline=4), MACHINE)
    work = one.terms["products"] + one.terms["attention"]
    assert one.terms["bubble"] == pytest.approx(work * 3 / 8, rel=0.01)
    chunks = estimate(flat, layout(micro_batches=8, pipeline=4, interleave=2), MACHINE)
    assert chunks.terms["bubble"] == pytest.approx(work * 3 / 16, rel=0.02)


def test_full_recompute_adds_a_forward() -> None:
    kept = estimate(model(), layout(), MACHINE)
    full = estimate(model(), layout(recompute=RECOMPUTES.index("full")), MACHINE)
    blocks = 8 * 12 * 1024 * 1024 * 2 * 1024 / PEAK
    attention = kept.terms["attention"] / 3.5  # backward takes 2.5 of forward
    assert full.terms["recompute"] == pytest.approx(blocks + attention)
    assert (full.step_s > kept.step_s).all()


def test_a_host_that_launches_slowly_sets_the_step() -> None:
    slow = replace(MACHINE, software=replace(ONLY_PRODUCTS, block_s=0.5))
    one = estimate(model(), layout(micro_batches=4), slow)
    head = 6 * 4 * 1024 * 32768 * 1024 / PEAK
    assert one.step_s == pytest.approx(4 * 8 * 0.5 + head)
    assert one.terms["launches"] > 0.9 * one.step_s


@given(
    blocks=st.integers(1, 12),
    stages=st.integers(1, 6),
    head=st.floats(0.05, 6.0),
)
def test_even_stages_are_cut_as_well_as_brute_force_does(
    blocks: int, stages: int, head: float
) -> None:
    if stages > blocks + 1:
        return
    whole = [1.0] * blocks + [head]
    best = min(
        max(sum(whole[start:end]) for start, end in zip((0, *cut), (*cut, len(whole)), strict=True))
        for cut in combinations(range(1, len(whole)), stages - 1)
    )
    one = Stages(blocks=blocks, block_s=np.ones(1), head_s=np.array([head]), even=True)
    assert one.longest(np.array([stages]))[0] == pytest.approx(best)


@pytest.mark.parametrize("name", ["gpt2-124M", "llama3-70B", "mixtral-8x7B", "deepseek-v3"])
def test_the_terms_add_up_and_none_is_negative(name: str) -> None:
    whole = transformer_of(model_named(name))
    rows = np.concatenate(
        [
            layout(data=8, tensor=tensor, pipeline=pipeline, zero=zero, micro_batches=8)
            for tensor in (1, 2)
            for pipeline in (1, 2)
            for zero in (0, 1, 3)
        ]
    )
    account = estimate(whole, rows, REAL)
    assert set(account.terms) == set(TERMS)
    for term, seconds in account.terms.items():
        assert seconds.shape == (len(rows),), term
        assert (seconds >= -1e-12).all(), term
    assert np.allclose(account.step_s, sum(account.terms.values()))
    assert ranks_of(rows).tolist() == [8] * 3 + [16] * 6 + [32] * 3


def test_sharded_parameters_are_gathered_once_a_step_in_a_pipeline_and_else_for_each_pass() -> None:
    def exposed(**said: int) -> float:
        account = estimate(model(), layout(data=16, zero=3, **said), REAL)
        return float(account.terms["data"][0])

    assert exposed(pipeline=2, micro_batches=8) == exposed(pipeline=2, micro_batches=4) > 0
    assert exposed(micro_batches=8) == pytest.approx(2 * exposed(micro_batches=4))


def test_slower_links_and_more_micro_batches_never_make_a_step_shorter() -> None:
    rows = np.concatenate(
        [layout(tensor=4, data=16, micro_batches=count, zero=1) for count in (1, 2, 4)]
    )
    fast = estimate(model(), rows, REAL).step_s
    assert (np.diff(fast) > 0).all()
    slow = replace(REAL, network=replace(REAL.network, between=REAL.network.between / 4))
    assert (estimate(model(), rows, slow).step_s >= fast).all()


def test_every_framework_has_a_file_that_can_be_read() -> None:
    assert "megatron" in software_names()
    for name in software_names():
        one = software_named(name)
        assert one.title
        assert one.source
