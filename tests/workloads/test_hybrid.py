from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from steptime.cluster import cluster_named
from steptime.cluster.what_if import ideal
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Recv, Send, check
from steptime.simulate.step import simulate
from steptime.workloads.experts import mixture
from steptime.workloads.hybrid import Hybrid, hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

SMALL = Transformer(name="small", layers=8, hidden=64, heads=8, context=32, vocabulary=500)


def of(kind, ops):
    return [op for op in ops if isinstance(op, kind)]


@pytest.fixture(scope="module")
def gpt3():
    return hybrid(model_named("gpt3-175B"), tensor=8, data=128, pipeline=16, micro_batches=12)


def test_gpt3_on_16384_ranks_is_a_program_of_16_classes(gpt3):
    check(gpt3)
    assert gpt3.ranks == 16384
    assert dict(gpt3.axes) == {"tensor": 8, "data": 128, "pipeline": 16}
    assert np.array_equal(gpt3.class_of, gpt3.coordinate("pipeline"))


def test_all_stages_together_compute_the_flops_of_the_model(gpt3):
    model = model_named("gpt3-175B").padded(128 * 8)
    flops = sum(op.flops for ops in gpt3.lists for op in of(Compute, ops)) * 8
    assert flops == pytest.approx(12 * 2048 * model.flops_per_token())


def test_tensor_ranks_sum_activations_four_times_a_block_and_micro_batch(gpt3):
    for ops in gpt3.lists[1:-1]:
        sums = [op for op in of(Collective, ops) if op.group == ("tensor",)]
        assert len(sums) == 4 * 6 * 12
        assert {op.nbytes for op in sums} == {2048 * 12288 * 2}
    first = Counter(op.name for op in of(Collective, gpt3.lists[0]))
    last = Counter(op.name for op in of(Collective, gpt3.lists[-1]))
    assert first["forward embedding"] == 12
    assert "backward embedding" not in first
    assert last["forward head"] == 3 * 12
    assert last["backward head"] == 12


def test_stages_send_each_micro_batch_on_and_its_gradient_back(gpt3):
    for stage, ops in enumerate(gpt3.lists):
        sent = Counter((op.by, op.tag) for op in of(Send, ops))
        received = Counter((op.by, op.tag) for op in of(Recv, ops))
        inner = {(1, 0): 12 * (stage < 15), (-1, 1): 12 * (stage > 0)}
        table = {(-1, 2): int(stage == 0), (1, 2): int(stage == 15)}
        assert sent == Counter(inner | table)
        assert received == Counter({(-1, 0): 12 * (stage > 0), (1, 1): 12 * (stage < 15)} | table)
        assert {op.nbytes for op in of(Send, ops) if op.tag < 2} == {2048 * 12288 * 2}


def test_replicas_reduce_all_gradients_of_a_rank_in_fp32(gpt3):
    model = model_named("gpt3-175B").padded(128 * 8)
    reduced = [op for ops in gpt3.lists for op in of(Collective, ops) if op.group == ("data",)]
    assert len(reduced) == 16 + 2  # the two copies of the table by themselves
    elements = sum(op.nbytes for op in reduced) // 4
    table = model.vocabulary * model.hidden  # on the last stage once more
    whole = (model.context + 6 * model.layers + 2) * model.hidden  # positions, norms, biases
    assert elements == (model.parameters + table - whole) // 8 + whole


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("micro_batches", [1, 3, 8, 11])
def test_1f1b_keeps_as_many_micro_batches_in_flight_as_stages_follow(stages, micro_batches):
    program = hybrid(SMALL, pipeline=stages, micro_batches=micro_batches)
    for stage, ops in enumerate(program.lists):
        entry = {
            direction: [i for i, op in enumerate(ops) if op.name.startswith(f"{direction} ")]
            for direction in ("forward", "backward")
        }
        passes = sorted(entry["forward"] + entry["backward"])
        order = [tuple(ops[place].name.split()[:2]) for place in passes]
        flying, most = set(), 0
        for direction, number in dict.fromkeys(order):
            if direction == "forward":
                flying.add(number)
            else:
                flying.remove(number)
            most = max(most, len(flying))
        assert not flying
        assert most == min(stages - stage, micro_batches)


def test_sharded_replicas_reduce_scatter_update_their_part_and_gather():
    program = hybrid(SMALL, data=4, pipeline=2, micro_batches=2, strategy="sharded")
    for ops in program.lists:
        *reduces, norm, share, other_share = of(Collective, ops)
        assert [op.kind for op in reduces] == ["reduce_scatter"] * 2  # the tied table by itself
        assert (norm.kind, norm.group) == ("all_reduce", ("tensor", "data", "pipeline"))
        assert [share.kind, other_share.kind] == ["all_gather"] * 2
        reduced, shared = (sum(op.nbytes for op in ops) for ops in (reduces, (share, other_share)))
        assert reduced == 2 * shared  # gradients in fp32, parameters in bf16
        updated = sum(op.nbytes for op in ops if op.name.startswith("update"))
        assert updated == reduced / 4 / 4 * (28 + 2)


def test_gradients_of_more_than_two_billion_elements_a_rank_are_counted_right():
    """Llama 3 70B on 8 stages of 4 tensor ranks, where 32 bits do not suffice."""
    model = model_named("llama3-70B")
    program = hybrid(model, tensor=4, data=2, pipeline=8, micro_batches=16, rows=1)
    check(program)
    reduced = [op for ops in program.lists for op in of(Collective, ops) if op.group == ("data",)]
    elements = [op.nbytes // 4 for op in reduced]
    assert len(elements) == 8
    assert max(elements) > 2**31
    norms = (2 * model.layers + 1) * model.hidden  # on every tensor rank
    padding = 2 * (model.padded(128 * 4).vocabulary - model.vocabulary) * model.hidden
    assert 4 * (sum(elements) - norms) == model.parameters - norms + padding
    run = simulate(program, cluster_named("h100-16384"), steps=1, fidelity="collective")
    sent = 2 * max(elements) * 4 // 2  # a ring of two ranks
    assert run.bytes_sent.max() > sent > 2**33
    assert run.step_s[0] > 0


def test_one_stage_and_no_tensor_ranks_is_data_parallelism():
    (ops,) = hybrid(SMALL, data=4, micro_batches=1, clip=False).lists
    (reduce,) = of(Collective, ops)
    assert reduce.nbytes == 4 * SMALL.padded().parameters
    assert not of(Send, ops)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pipeline": 3}, "3 pipeline stages do not divide the 8 layers of small.*2 and 4"),
        ({"pipeline": 16}, "16 pipeline stages do not divide the 8 layers.*8"),
        ({"tensor": 5}, "5 tensor ranks do not divide the 8 heads of small.*4 and 8"),
        (
            {"tensor": 8, "inner": 100},
            "8 tensor ranks do not divide the 100 inner columns.*5 and 10",
        ),
        ({"data": 0}, "number of data ranks is 0"),
        ({"micro_batches": 0}, "number of micro-batches is 0"),
        ({"strategy": "server"}, "no strategy 'server': choose replicated, sharded, over"),
        ({"dtype": "fp8"}, "no dtype 'fp8'"),
    ],
)
def test_what_does_not_divide_is_refused(wrong, message):
    model = replace(SMALL, inner=wrong.get("inner", 256))
    options = {name: value for name, value in wrong.items() if name != "inner"}
    with pytest.raises(UsageError, match=message):
        hybrid(model, **{"micro_batches": 2} | options)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (4, 8), (8, 5)])
def test_the_bubble_is_that_of_1f1b_where_communication_costs_nothing(stages, micro_batches):
    """(p - 1)/(m + p - 1) of the step (arXiv 2104.04473, section 2.2.1)."""
    program = hybrid(SMALL, pipeline=stages, micro_batches=micro_batches, clip=False)
    program = replace(program, lists=tuple(tuple(map(same_for_all, ops)) for ops in program.lists))
    cluster = ideal(cluster_named("dgx-h100"))
    run = simulate(program, cluster, steps=1)
    busy = run.ranks["compute_s"]
    assert np.ptp(busy) < 1e-12
    bubble = 1 - busy[0] / run.step_s[0]
    assert bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1), abs=1e-9)


def same_for_all(op):
    """Embedding, head and update for nothing: stages are then alike."""
    if isinstance(op, Compute) and not op.name.endswith(("attention", "mlp")):
        return replace(op, flops=0.0, nbytes=0.0, kernels=())
    return op


def test_every_schedule_computes_the_same_and_reads_as_much_memory():
    """A backward pass in two halves is as much work as one."""

    def work(schedule):
        made = hybrid(SMALL, pipeline=2, micro_batches=4, schedule=schedule, recompute="selective")
        own = [
            [op for op in of(Compute, ops) if op.name.startswith(("forward", "backward"))]
            for ops in made.lists
        ]
        return [sum(getattr(op, what) for op in ops) for ops in own for what in ("flops", "nbytes")]

    assert work("zb-h1") == pytest.approx(work("1f1b"), rel=1e-12)


def test_rows_of_a_micro_batch_are_computed_and_sent():
    def work(rows):
        spec = StepSpec(model="gpt2-124M", tensor=2, micro_batches=2, rows=rows, tokens=64)
        (ops,) = step_of(spec).program.lists
        sums = [op.nbytes for op in of(Collective, ops) if op.group == ("tensor",)]
        return sum(op.flops for op in of(Compute, ops) if op.dtype == "bf16"), sum(sums)

    assert np.divide(work(3), work(1)) == pytest.approx([3, 3], rel=1e-3)


def test_the_router_and_the_experts_compute_what_the_whole_mixture_does():
    model = model_named("mixtral-8x7B")
    step = Hybrid(model, mesh=Mesh(expert=4), micro_batches=1, tokens=64)
    part = next(p for p in model.units[1].parts if any(t.expert for t in p.tensors))
    segments = mixture(step.cut, part)
    assert [segment.part.name for segment in segments] == ["router", "experts"]
    flops = sum(segment.part.forward_flops(64) for segment in segments)
    assert flops == part.forward_flops(64)
    assert segments[1].part.forward_flops(64) == 2 * 2 * 3 * 4096 * 14336  # top 2 of 3 matrices


def test_the_copied_table_of_a_tied_model_is_one_product_of_the_head():
    program = hybrid(model_named("gpt2-124M"), tensor=2, pipeline=2, micro_batches=2, tokens=1024)
    heads = [op for op in of(Compute, program.lists[-1]) if op.name.split()[-1] == "head"]
    assert len(heads) == 4
    for op in heads:
        found = [one.sizes for one in op.kernels if one.kind == "product"]
        assert {tuple(sorted(sizes)) for sizes in found} == {(1, 768, 1024, 50432 // 2)}
