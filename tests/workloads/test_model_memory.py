"""What a rank keeps of a model, beside the figures and formulas of the papers."""

import pytest

from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.model_memory import Activations, memory_of_replica
from steptime.workloads.models import Transformer, model_named

# 7.5 B parameters: 48 layers of 3584, as table 4 of the ZeRO paper names a model of that size
SEVEN = Transformer(
    name="zero-7.5B", layers=48, hidden=3584, heads=28, context=1024, vocabulary=50257
)
BILLION = 1e9


@pytest.mark.parametrize(
    ("strategy", "gigabytes"),
    [("replicated", 120), ("sharded", 31.4), ("zero2", 16.6), ("zero3", 1.9)],
)
def test_zero_divides_7_billion_parameters_among_64_ranks_as_its_paper_has_it(strategy, gigabytes):
    """arXiv 1910.02054, figure 1."""
    found = memory_of_replica(
        SEVEN, strategy, ranks=64, rows=1, row=1024, dtype="bf16", reduce_dtype="bf16"
    )
    state = found.parameters + found.gradients + found.optimizer
    per_parameter = state / SEVEN.padded().parameters
    assert 7.5 * per_parameter == pytest.approx(gigabytes, rel=0.02)
    assert SEVEN.parameters == pytest.approx(7.5 * BILLION, rel=0.02)


@pytest.mark.parametrize("strategy", ["replicated", "sharded", "zero2", "zero3"])
def test_both_kinds_of_steps_keep_the_same(strategy):
    step = Hybrid(
        SEVEN, mesh=Mesh(data=64), micro_batches=1, strategy=strategy, reduce_dtype="bf16"
    )
    (found,) = step.memory
    other = memory_of_replica(
        SEVEN, strategy, ranks=64, rows=1, row=1024, dtype="bf16", reduce_dtype="bf16"
    )
    for part in ("parameters", "gradients", "optimizer", "activations"):
        assert getattr(found, part) == pytest.approx(getattr(other, part), rel=1e-3)


def test_zero_3_passes_two_units_of_parameters_and_one_of_gradients():
    """The table of a tied embedding is gathered beside them: the head needs it too."""
    model = model_named("gpt2-124M").padded()
    sizes = [unit.parameters for unit in model.units]
    found = memory_of_replica(model, "zero3", ranks=8, rows=1, row=64, dtype="bf16")
    gathered = 2 * (sum(sorted(sizes)[-2:]) + sizes[0])
    assert found.passing == gathered + 4 * max(sizes)
    assert memory_of_replica(model, "zero2", ranks=8, rows=1, row=64).passing == 4 * max(sizes)


def block(name, *, tensor=1, sequence_parallel=False, recompute="none", rows=1, context=1):
    model = model_named(name)
    step = Hybrid(
        model,
        mesh=Mesh(tensor=tensor, context=context),
        micro_batches=1,
        rows=rows,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    return Activations(model=model, cut=step.cut, recompute=recompute).of_unit(model.units[1])


def test_activations_of_a_block_are_those_of_the_formulas_without_scores():
    """arXiv 2205.05198, table 2; s, b, h and t are its letters. Attention is fused."""
    model = model_named("gpt3-175B")
    s, b, h, t = 2048, 2, model.hidden, 8
    sbh = s * b * h
    assert block("gpt3-175B", rows=b) == 34 * sbh
    split = {"tensor": t, "rows": b}
    assert block("gpt3-175B", **split) == sbh * (10 + 24 / t)
    assert block("gpt3-175B", **split, sequence_parallel=True) == 34 * sbh / t
    assert block("gpt3-175B", **split, recompute="selective") == sbh * (10 + 24 / t)
    assert block("gpt3-175B", rows=b, recompute="full") == 2 * sbh


def test_context_ranks_keep_a_share_of_all_but_gathered_keys_and_values():
    model = model_named("llama3-8B")
    whole, half = (block("llama3-8B", context=c, recompute="selective") for c in (1, 2))
    keys = 2 * 8192 * model.hidden // model.heads * model.kv_heads * 2
    assert half == whole // 2 + keys // 2


@pytest.mark.parametrize(
    ("schedule", "interleave", "kept"),
    [("gpipe", 1, [8, 8, 8, 8]), ("1f1b", 1, [4, 3, 2, 1]), ("zb-h1", 1, [4, 4, 4, 4])],
)
def test_a_stage_keeps_the_micro_batches_that_are_in_flight(schedule, interleave, kept):
    step = Hybrid(
        model_named("llama2-7B"),
        mesh=Mesh(pipeline=4),
        micro_batches=8,
        schedule=schedule,
        interleave=interleave,
    )
    each = Activations(model=step.model, cut=step.cut).of_unit(step.model.units[1]) * 8
    found = [memory.activations / each for memory in step.memory]
    assert found[:3] == pytest.approx(kept[:3])
    logits = 2 * 4096 * 32000 + 2 * 4096 * 4096 * 2
    assert step.memory[3].activations == kept[3] * (each + logits)


def test_interleaving_keeps_more_by_the_papers_factor():
    """1 + (p - 1)/(p v) times as much (arXiv 2104.04473, section 2.2)."""
    options = {"mesh": Mesh(pipeline=4), "micro_batches": 16}
    model = model_named("llama2-7B")
    once = Hybrid(model, **options).memory[0].activations
    twice = Hybrid(model, **options, interleave=2, schedule="interleaved").memory[0].activations
    assert twice / once == pytest.approx(1 + 3 / 8, rel=0.01)


def test_experts_are_divided_among_their_ranks_and_fp32_needs_no_master():
    model = model_named("mixtral-8x7B")
    (found,) = Hybrid(model, mesh=Mesh(expert=8), micro_batches=1, tokens=4096, dtype="fp32").memory
    of_experts = sum(t.size for unit in model.units for t in unit.tensors if t.expert)
    held = model.padded().parameters - of_experts + of_experts // 8
    assert found.parameters == found.gradients == 4 * held
    assert found.optimizer == 8 * held


def test_what_is_recomputed_is_there_for_one_block_at_a_time():
    model = model_named("gpt2-1.5B")
    kept = [
        Hybrid(model, mesh=Mesh(), micro_batches=1, recompute=how).memory[0].activations
        for how in ("full", "selective", "none")
    ]
    assert kept[0] < kept[1] == kept[2]
    whole = block("gpt2-1.5B")
    assert kept[0] >= whole + (model.layers - 1) * block("gpt2-1.5B", recompute="full")


@pytest.mark.parametrize("how", ["full", "selective", "none"])
def test_a_block_that_is_recomputed_takes_all_that_it_would_keep(how):
    """At the peak: what every unit keeps, and of one block what backward computes again."""
    model = model_named("gpt2-1.5B").padded()
    step = Hybrid(model, mesh=Mesh(), micro_batches=1, recompute=how)
    kept = Activations(model=model, cut=step.cut, recompute=how)
    again = block("gpt2-1.5B") - block("gpt2-1.5B", recompute=how)
    assert (again > 0) == (how == "full")
    assert step.memory[0].activations == sum(map(kept.of_unit, model.units)) + again


def test_of_blocks_that_differ_the_largest_is_computed_again():
    """The first three of DeepSeek-V3 have one MLP, the others experts."""
    model = model_named("deepseek-v3").padded()
    step = Hybrid(model, mesh=Mesh(), micro_batches=1, tokens=4096, recompute="full")
    kept = Activations(model=model, cut=step.cut)
    blocks = {kept.of_unit(unit) for unit in (model.units[1], model.units[-2])}
    again = Activations(model=model, cut=step.cut, recompute="full")
    held = again.of_unit(model.units[1])
    assert len(blocks) == 2
    assert again.passing(model.units) == max(blocks) - held


def test_samples_keep_what_leaves_each_unit():
    model = model_named("resnet50")
    found = memory_of_replica(model, "server", ranks=4, rows=32, row=1)
    assert found.activations == 32 * 4 * sum(unit.activations for unit in model.units)
    assert found.optimizer == 8 * model.parameters  # of the root
