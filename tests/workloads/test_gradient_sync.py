"""Gradient sync among the replicas of hybrid and of plain data parallelism: volumes and overlap."""

from collections import Counter
from dataclasses import replace

import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Recv, Send, check, match_calls
from steptime.replay.demand import predicted
from steptime.simulate.step import simulate
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.sync import strategy_of_zero

RANKS = 4
TIED = Transformer(name="tied", layers=4, hidden=64, heads=4, context=32, vocabulary=512)
LOOSE = Transformer(
    name="loose", layers=4, hidden=64, heads=4, context=32, vocabulary=512, architecture=LLAMA
)


def of(kind, ops):
    return [op for op in ops if isinstance(op, kind)]


def plain(model, strategy, micro_batches=1):
    return data_parallel(
        model, strategy, ranks=RANKS, batch=RANKS * micro_batches, accumulate=micro_batches
    )


def as_hybrid(model, strategy, micro_batches=1):
    return hybrid(model, data=RANKS, strategy=strategy, micro_batches=micro_batches, dtype="fp32")


@pytest.mark.parametrize("make", [plain, as_hybrid])
@pytest.mark.parametrize("model", [TIED, LOOSE])
@pytest.mark.parametrize(
    ("strategy", "micro_batches", "halves"),
    [
        ("replicated", 1, 2),
        ("overlapped", 3, 2),
        ("sharded", 3, 2),
        ("overlapped_sharded", 1, 2),
        ("zero2", 1, 2),
        ("zero2", 3, 4),
        ("zero3", 1, 3),  # 1.5 times the volume of an all_reduce
        ("zero3", 3, 9),
    ],
)
def test_zero_moves_what_its_paper_says(make, model, strategy, micro_batches, halves):
    """In units of the parameters, (n - 1)/n of each (arXiv 1910.02054, section 7)."""
    program = make(model, strategy, micro_batches)
    check(program)
    match_calls(program)
    volume = max(moved["data"].sent for moved in predicted(program))
    whole = model.padded().parameters * 4 * (RANKS - 1) / RANKS
    assert volume == pytest.approx(halves * whole, rel=0.005)


@pytest.mark.parametrize("make", [plain, as_hybrid])
@pytest.mark.parametrize("model", [TIED, LOOSE])
def test_sharded_parameters_are_gathered_one_unit_ahead_of_both_passes(make, model):
    (ops,) = make(model, "zero3").lists
    units = len(model.units)
    gathers = [place for place, op in enumerate(ops) if "all_gather" in op.name]
    assert len(gathers) == 2 * units
    assert len([op for op in ops if "reduce_scatter" in op.name]) == units
    sizes = Counter(ops[place].nbytes for place in gathers)
    assert set(sizes.values()) <= {2, 2 * model.layers}
    update = max(place for place, op in enumerate(ops) if op.name == "update")
    assert [ops[place].after for place in gathers[:2]] == [(update - len(ops),)] * 2
    ahead = [ops[ops[place].after[0]].name for place in gathers[2:]]
    assert all(name.startswith(("forward", "backward")) for name in ahead)
    for op in ops:  # the sums of a unit come after the gather that its successor waits for
        if "reduce_scatter" in op.name:
            assert ops[op.after[0]].name.startswith("backward")


@pytest.mark.parametrize("name", ["resnet50", "cosmoflow"])
def test_any_model_can_be_fully_sharded(name):
    model = model_named(name)
    program = data_parallel(model, "zero3", ranks=RANKS, batch=RANKS)
    check(program)
    match_calls(program)
    held = [unit for unit in model.units if unit.parameters]
    assert len([op for op in program.lists[0] if "all_gather" in op.name]) == 2 * len(held)
    run = simulate(program, cluster_named("dgx-h100"), steps=2, fidelity="collective")
    assert run.step_s[-1] > 0


@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("interleave", [1, 2])
def test_buckets_are_reduced_behind_the_last_micro_batch_and_gathered_behind_the_next_forward(
    tensor, pipeline, interleave
):
    if interleave > pipeline:
        pytest.skip("one stage has one chunk")
    program = hybrid(
        TIED,
        tensor=tensor,
        data=4,
        pipeline=pipeline,
        micro_batches=4,
        interleave=interleave,
        strategy="overlapped_sharded",
        bucket_bytes=40_000,
    )
    check(program)
    match_calls(program)
    whole = hybrid(
        TIED,
        tensor=tensor,
        data=4,
        pipeline=pipeline,
        micro_batches=4,
        interleave=interleave,
        strategy="sharded",
    )
    for ops, others in zip(program.lists, whole.lists, strict=True):
        reduces = [place for place, op in enumerate(ops) if "reduce_scatter" in op.name]
        last = max(place for place, op in enumerate(ops) if op.name.startswith("backward"))
        assert len(reduces) > 3
        assert sum(place < last for place in reduces) >= len(reduces) // 2
        at_once = [op.nbytes for op in others if "reduce_scatter" in op.name]
        assert len(at_once) == (1 if pipeline == 1 else 2)  # a tied table's copy by itself
        assert sum(ops[place].nbytes for place in reduces) == pytest.approx(sum(at_once), abs=200)
        late = {place - len(ops) for place, op in enumerate(ops) if "all_gather" in op.name}
        waited = {at for op in ops if op.name.startswith("forward") for at in op.after if at < 0}
        assert waited == late
        assert len(late) == len(reduces)


def test_a_bucket_is_reduced_as_soon_as_all_its_gradients_are_there_and_not_before():
    """A bucket a tensor: the head has 2, each block 12, and the embedding 2."""
    options = {"data": 4, "micro_batches": 1, "strategy": "overlapped", "bucket_bytes": 1}
    (ops,) = hybrid(TIED, **options).lists
    reduces = [op for op in of(Collective, ops) if op.kind == "all_reduce" and op.nbytes > 8]
    behind = Counter(place for op in reduces for place in op.after)
    backward = [place for place, op in enumerate(ops) if op.name.startswith("backward")]
    assert [behind[place] for place in backward] == [2, *(0, 12) * 4, 2]
    assert len({op.name for op in reduces}) == len(reduces)


def test_two_buckets_have_a_name_each():
    """Experts are summed among others than the rest: here a bucket for each of two blocks."""
    model = replace(LOOSE, layers=2, experts=2, inner=64)
    ops = hybrid(model, data=2, expert=2, strategy="zero3", micro_batches=1).lists[0]
    sums = [op.name for op in of(Collective, ops) if op.kind == "reduce_scatter"]
    assert len(set(sums)) == len(sums) == model.layers + len(model.units)


def test_the_tied_table_is_a_bucket_of_its_own_of_which_stages_exchange_their_share():
    options = {"data": 4, "pipeline": 2, "micro_batches": 2, "bucket_bytes": 40_000}
    table = 512 * 64
    for strategy, share in (("overlapped", 1), ("overlapped_sharded", 4)):
        program = hybrid(TIED, **options, strategy=strategy)
        match_calls(program)
        for ops in program.lists:
            ends = [op for op in of((Send, Recv), ops) if op.name.endswith("table")]
            assert [op.nbytes for op in ends] == [table * 4 // share] * 2
            assert all("reduce" in ops[place].name for op in ends for place in op.after)
            assert table * 4 in {op.nbytes for op in of(Collective, ops) if "reduce" in op.name}


def test_overlapping_hides_gradients_behind_backward():
    model, cluster = model_named("gpt2-355M"), cluster_named("dgx-h100")
    steps = {}
    for strategy in ("replicated", "overlapped", "sharded", "overlapped_sharded"):
        program = hybrid(model, tensor=2, data=4, micro_batches=2, strategy=strategy, tokens=512)
        run = simulate(program, cluster, steps=2, fidelity="collective")
        steps[strategy] = float(run.step_s[-1])
        busy = run.ranks["compute_s"] + run.ranks["update_s"]
        assert busy.max() < steps[strategy]
    assert steps["overlapped"] < steps["replicated"]
    assert steps["overlapped_sharded"] < steps["sharded"]


def test_the_norm_is_added_up_over_all_ranks_that_have_other_gradients():
    def group(**options):
        (norm,) = [
            op
            for op in of(Collective, hybrid(TIED, **options, micro_batches=2).lists[0])
            if op.name == "norm"
        ]
        return norm.group

    assert group(tensor=2, data=2, pipeline=2) == ("tensor", "data", "pipeline")[::2]
    assert group(tensor=2, data=2, strategy="sharded") == ("tensor", "data", "pipeline")
    assert not [
        op
        for op in hybrid(TIED, data=4, micro_batches=1).lists[0]
        if op.name == "norm" and isinstance(op, Collective)
    ]


@pytest.mark.parametrize(
    ("stage", "strategy", "found"),
    [
        (None, None, None),
        (None, "sliced", "sliced"),
        (0, None, "replicated"),
        (1, None, "sharded"),
        (1, "overlapped_sharded", "overlapped_sharded"),
        (2, None, "zero2"),
        (3, "zero3", "zero3"),
    ],
)
def test_a_stage_of_zero_is_a_strategy(stage, strategy, found):
    assert strategy_of_zero(stage, strategy) == found


@pytest.mark.parametrize(
    ("stage", "strategy", "sentence"),
    [
        (1, "replicated", "contradict each other: .* --strategy sharded or overlapped_sharded"),
        (0, "sharded", "--strategy replicated or overlapped"),
        (3, "sharded", "--strategy zero3"),
        (4, None, "ZeRO has the stages 0, 1, 2 and 3"),
        (-1, None, "--zero is -1"),
    ],
)
def test_a_stage_and_a_strategy_that_contradict_each_other_are_refused(stage, strategy, sentence):
    with pytest.raises(UsageError, match=sentence):
        strategy_of_zero(stage, strategy)


def test_no_compute_is_added_by_sharding():
    def flops(strategy):
        (ops,) = hybrid(TIED, data=4, micro_batches=2, strategy=strategy).lists
        return sum(op.flops for op in of(Compute, ops))

    assert len({flops(name) for name in ("replicated", "sharded", "zero2", "zero3")}) == 1
