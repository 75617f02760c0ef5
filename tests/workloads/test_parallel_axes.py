"""What ranks along each axis send, beside the formulas of the papers."""

from collections import Counter
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Send, check, match_calls
from steptime.replay.demand import predicted
from steptime.simulate.step import simulate
from steptime.workloads.hybrid import hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.models.families.llama import LLAMA

DENSE = Transformer(
    name="dense", layers=4, hidden=64, heads=8, kv_heads=4, context=64, vocabulary=500
)
MIXED = replace(DENSE, name="mixed", experts=4, top_k=2, inner=96, architecture=LLAMA)


def of(kind, ops):
    return [op for op in ops if isinstance(op, kind)]


def along(program, *axes):
    return [op for ops in program.lists for op in of(Collective, ops) if op.group == axes]


def sent(program, label):
    return max(moved[label].sent for moved in predicted(program) if label in moved)


def flops(program):
    classes = program.class_of.tolist()
    return sum(sum(op.flops for op in of(Compute, program.lists[kind])) for kind in classes)


def test_experts_take_four_all_to_alls_a_layer_and_micro_batch_of_tokens_times_top_k():
    program = hybrid(MIXED, expert=4, data=2, micro_batches=3, rows=2)
    counts = [op for op in along(program, "expert") if op.kind == "all_gather"]
    assert [op.nbytes for op in counts] == [4 * 4 * 8] * MIXED.layers * 3
    calls = [op for op in along(program, "expert") if op not in counts]
    assert {op.kind for op in calls} == {"all_to_all"}
    assert len(calls) == 4 * MIXED.layers * 3
    tokens = 2 * 64
    assert {op.nbytes for op in calls} == {tokens * 2 * MIXED.hidden * 2}
    told = sum(op.nbytes for op in counts)
    moved = len(calls) * tokens * 2 * MIXED.hidden * 2
    assert sent(program, "expert") == (moved + told) * 3 // 4


def test_a_block_routes_dispatches_computes_and_combines_and_back():
    (ops,) = hybrid(MIXED, expert=2, micro_batches=1).lists
    names = [op.name for op in ops]
    at = names.index("forward 0 attention")
    assert names[at : at + 6] == [
        "forward 0 attention",
        "forward 0 router",
        "forward counts",
        "forward dispatch",
        "forward 0 experts",
        "forward combine",
    ]
    at = names.index("backward combine")
    assert names[at : at + 5] == [
        "backward combine",
        "backward 0 experts",
        "backward dispatch",
        "backward 0 router",
        "backward 0 attention",
    ]
    assert all(op.after == (place - 1,) for place, op in enumerate(ops) if "dispatch" in op.name)


def test_the_gradients_of_experts_are_added_up_among_those_that_have_the_same():
    program = hybrid(MIXED, expert=4, data=2, context=2, micro_batches=1, clip=False)
    (others,) = along(program, "context", "expert", "data")
    (experts,) = along(program, "context", "data")
    of_experts = sum(t.size for unit in MIXED.units for t in unit.tensors if t.expert)
    assert experts.nbytes == of_experts // 4 * 4
    assert others.nbytes == (MIXED.padded().parameters - of_experts) * 4


def test_context_ranks_gather_keys_and_values_and_scatter_their_gradients():
    program = hybrid(DENSE, context=4, micro_batches=2, rows=3)
    kinds = Counter(op.kind for op in along(program, "context") if op.name.endswith("values"))
    assert kinds == {"all_gather": 2 * DENSE.layers, "reduce_scatter": 2 * DENSE.layers}
    keys = DENSE.hidden * DENSE.kv_heads // DENSE.heads
    whole = 2 * 3 * 64 * keys * 2  # keys and values of three rows of 64 in bf16
    moved = [op for op in along(program, "context") if op.name.endswith("values")]
    assert {op.nbytes for op in moved} == {whole}
    summed = sum(op.nbytes for op in along(program, "context")) - 2 * 2 * DENSE.layers * whole
    each = 3 * (whole // 4) * 2 * 2 * DENSE.layers
    assert sent(program, "context") == each + 2 * 3 * summed // 4


def test_sequence_parallelism_sends_the_bytes_of_tensor_parallelism_and_less_between_stages():
    options = {"tensor": 4, "pipeline": 2, "micro_batches": 3, "rows": 2}
    plain = hybrid(DENSE, **options)
    split = hybrid(DENSE, **options, sequence_parallel=True)
    assert {op.kind for op in along(plain, "tensor")} == {"all_reduce"}
    for before, after in zip(plain.lists, split.lists, strict=True):
        one, other = (
            sum(
                ring(op, 4)
                for op in of(Collective, ops)
                if op.group == ("tensor",) and op.name != "unsplit"
            )
            for ops in (before, after)
        )
        assert one == other > 0
    largest = [max(op.nbytes for op in of(Send, ops) if op.tag < 2) for ops in plain.lists]
    assert [max(op.nbytes for op in of(Send, ops) if op.tag < 2) for ops in split.lists] == [
        nbytes // 4 for nbytes in largest
    ]
    unsplit = [op for op in along(split, "tensor") if op.name == "unsplit"]
    whole = [t.size for unit in DENSE.units for t in unit.tensors if not t.split]
    assert sum(op.nbytes for op in unsplit) == 4 * sum(whole)


def ring(op, members):
    times = 2 if op.kind == "all_reduce" else 1
    return times * (members - 1) * op.nbytes // members


def test_tokens_that_come_to_experts_are_gathered_where_ranks_have_a_share_of_them():
    program = hybrid(MIXED, tensor=2, expert=2, micro_batches=1, sequence_parallel=True)
    tokens = 64 * MIXED.top_k
    moved = {op.nbytes for op in along(program, "expert") if op.kind == "all_to_all"}
    assert moved == {tokens // 2 * MIXED.hidden * 2}
    gathers = [op for op in along(program, "tensor") if op.name.endswith("routed tokens")]
    assert {op.nbytes for op in gathers} == {tokens * MIXED.hidden * 2}
    assert Counter(op.kind for op in gathers) == {
        "all_gather": 2 * MIXED.layers,
        "reduce_scatter": 2 * MIXED.layers,
    }


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (DENSE, 0),
        (MIXED, 4 * 64 * 4),  # routers of all layers: experts' outputs are in parts
        (
            replace(MIXED, architecture=replace(LLAMA, biased=True)),
            4 * (64 * 4 + 2 * 64),  # and biases of the two experts that a rank has
        ),
    ],
)
def test_gradients_that_tensor_ranks_have_parts_of_are_added_up_once_a_step(model, expected):
    program = hybrid(model, tensor=2, expert=min(2, model.experts), micro_batches=2)
    calls = [op for op in along(program, "tensor") if op.name == "unsplit"]
    assert [op.nbytes for op in calls] == [4 * expected] * bool(expected)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.fixed_dictionaries(
        {
            "tensor": st.sampled_from([1, 2, 4]),
            "context": st.sampled_from([1, 2, 4]),
            "expert": st.sampled_from([1, 2, 4]),
            "data": st.sampled_from([1, 2, 3]),
            "pipeline": st.sampled_from([1, 2, 4]),
        }
    ),
    micro_batches=st.sampled_from([1, 4, 5]),
    rows=st.integers(1, 2),
    strategy=st.sampled_from(["replicated", "sharded", "overlapped", "overlapped_sharded"]),
    zero=st.sampled_from(["", "zero2", "zero3"]),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    schedule=st.sampled_from(["1f1b", "gpipe", "zb-h1"]),
)
def test_ranks_meet_on_any_product_of_axes_and_compute_the_whole_model(
    sizes, micro_batches, rows, strategy, zero, sequence_parallel, recompute, schedule
):
    program = hybrid(
        MIXED,
        **sizes,
        micro_batches=micro_batches,
        rows=rows,
        strategy=zero if zero and sizes["pipeline"] == 1 else strategy,
        bucket_bytes=20_000,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
        schedule=schedule,
    )
    check(program)
    match_calls(program)
    assert program.ranks == prod(sizes.values())
    model = MIXED.padded(128 * sizes["tensor"])
    tokens = sizes["data"] * sizes["expert"] * micro_batches * rows * 64
    anew = 0.0
    parts = [part for unit in model.units[1:-1] for part in unit.parts]
    if recompute == "full":
        anew = sum(part.forward_flops(64) for part in parts)
    elif recompute == "selective":
        anew = 64.0 * sum(part.attending for part in parts)
    assert flops(program) == pytest.approx(tokens * (model.flops_per_token() + anew))


def test_blocks_that_are_recomputed_are_communicated_anew():
    once = hybrid(DENSE, tensor=2, context=2, micro_batches=2)
    again = hybrid(DENSE, tensor=2, context=2, micro_batches=2, recompute="full")
    blocks = 2 * DENSE.layers
    assert len(along(again, "tensor")) == len(along(once, "tensor")) + 2 * blocks
    assert len(along(again, "context")) == len(along(once, "context")) + blocks


def test_mixtral_spreads_more_than_two_billion_elements_of_experts():
    """Counts of more than 32 bits: what expert ranks reduce, and what the simulator carries."""
    model = model_named("mixtral-8x7B")
    program = hybrid(model, tensor=2, expert=2, data=2, pipeline=2, micro_batches=2, tokens=4096)
    check(program)
    reduced = [op.nbytes // 4 for op in along(program, "data")]
    of_experts = sum(t.size for unit in model.units for t in unit.tensors if t.expert)
    assert sum(reduced) == of_experts // 4
    assert min(reduced) > 2**31
    run = simulate(program, cluster_named("dgx-h100-pod"), steps=1, fidelity="collective")
    assert run.bytes_sent.max() > 4 * max(reduced) > 2**34


@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        (DENSE, {"expert": 2}, "dense has no experts to spread over 2 expert ranks"),
        (MIXED, {"expert": 8}, "8 expert ranks are more than the 4 experts .* that go are 4"),
        (MIXED, {"expert": 3}, "3 expert ranks do not divide the 4 experts.*2 and 4"),
        (MIXED, {"context": 3}, "3 context ranks take two chunks each of a row.*2 and 4"),
        (MIXED, {"context": 2, "tokens": 63}, "2 context ranks .* the 63 tokens.*are 1"),
        (MIXED, {"expert": 0}, "number of expert ranks is 0"),
        (
            MIXED,
            {"tensor": 4, "tokens": 6, "sequence_parallel": True},
            "4 tensor ranks do not divide the 6 tokens of a row of mixed.*3 and 6",
        ),
        (MIXED, {"expert": 4, "tokens": 3}, "4 expert ranks do not divide the 6 routed tokens"),
        (MIXED, {"strategy": "zero3", "pipeline": 2}, "zero3 does not go with 2 pipeline stages"),
        (MIXED, {"strategy": "sliced"}, "no strategy 'sliced': choose replicated, sharded, "),
        (MIXED, {"bucket_bytes": 0}, "number of bytes of a bucket is 0"),
    ],
)
def test_what_ranks_cannot_share_is_refused(model, wrong, message):
    with pytest.raises(UsageError, match=message):
        hybrid(model, **{"micro_batches": 1} | wrong)


def test_the_nearest_numbers_of_ranks_that_go_are_told() -> None:
    with pytest.raises(UsageError, match="nearest number of ranks that goes is 6 or 9"):
        Mesh(tensor=3).replicated(8, None)
    with pytest.raises(UsageError, match="nearest number of ranks that goes is 12 or 18"):
        Mesh(tensor=3).replicated(16, 2)
    with pytest.raises(UsageError, match="nearest number of ranks that goes is 8"):
        Mesh(tensor=4, pipeline=2).replicated(4, None)
