"""The largest of today's models on many ranks: what they compute, keep and send."""

from itertools import pairwise

import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, check
from steptime.simulate.step import simulate
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.model_memory import Activations
from steptime.workloads.models import Latent, Transformer, model_named
from steptime.workloads.models.families.deepseek import V3

LATENT = Transformer(
    name="latent",
    layers=4,
    hidden=64,
    heads=8,
    context=64,
    vocabulary=1024,
    inner=96,
    experts=8,
    top_k=2,
    expert_inner=32,
    shared_inner=16,
    dense_layers=1,
    latent=Latent(query_rank=24, kv_rank=16, nope_width=8, rope_width=4, value_width=6),
    architecture=V3,
)


def flops(step):
    """Of all ranks."""
    ranks_of = step.mesh.ranks // step.mesh.pipeline
    lists = step.program.lists
    return ranks_of * sum(op.flops for ops in lists for op in ops if isinstance(op, Compute))


def needed(step):
    """FLOP of a step by the model alone."""
    model = step.model.padded(128 * step.mesh.tensor)
    tokens = step.mesh.replicas * step.micro_batches * step.rows * step.cut.row
    return tokens * model.flops_per_token(step.cut.row)


@pytest.mark.parametrize(
    ("name", "mesh", "cluster"),
    [
        ("llama3.1-405B", Mesh(tensor=8, pipeline=2, data=4), "h100-16384"),
        ("deepseek-v3", Mesh(tensor=4, expert=32), "dgx-h100-pod"),
        ("qwen3-235B", Mesh(tensor=4, expert=16, pipeline=2, data=2), "h100-16384"),
    ],
)
def test_a_step_of_a_large_model_is_simulated_and_its_memory_told(name, mesh, cluster):
    step = Hybrid(
        model_named(name), mesh=mesh, micro_batches=2, tokens=4096, sequence_parallel=True
    )
    check(step.program)
    assert flops(step) == pytest.approx(needed(step), rel=1e-6)
    run = simulate(step.program, cluster_named(cluster), steps=1, fidelity="collective")
    assert run.step_s > flops(step) / mesh.ranks / 989e12
    assert len(step.memory) == mesh.pipeline
    held = sum(m.parameters for m in step.memory) * mesh.tensor / 2
    assert held > step.model.parameters / mesh.expert


def test_stages_that_do_not_divide_the_layers_are_refused_with_those_that_do():
    with pytest.raises(UsageError, match=r"16 pipeline stages .* 61 layers .* are 9 and 21"):
        Hybrid(model_named("deepseek-v3"), mesh=Mesh(pipeline=16, expert=8), micro_batches=16)


def test_tensor_ranks_must_divide_the_width_of_an_expert():
    narrow = Transformer(
        **{name: getattr(LATENT, name) for name in ("name", "layers", "hidden", "heads")},
        context=64,
        vocabulary=100,
        inner=96,
        experts=4,
        expert_inner=12,
    )
    with pytest.raises(UsageError, match="8 tensor ranks do not divide the 12 inner columns of an"):
        Hybrid(narrow, mesh=Mesh(tensor=8), micro_batches=1)


def test_narrow_vectors_are_made_by_every_tensor_rank_unless_tokens_are_shared():
    """Megatron-LM duplicates the down-projections of latent attention among tensor ranks."""
    alone = Hybrid(LATENT, mesh=Mesh(), micro_batches=1)
    assert flops(alone) == pytest.approx(needed(alone))
    shared = Hybrid(LATENT, mesh=Mesh(tensor=4), micro_batches=1, sequence_parallel=True)
    assert flops(shared) == pytest.approx(needed(shared))
    each = Hybrid(LATENT, mesh=Mesh(tensor=4), micro_batches=1)
    down = 64 * (24 + 16 + 4) + 24 + 16  # with their norms
    assert flops(each) - needed(each) == pytest.approx(3 * 4 * 64 * 6 * down)


def test_tokens_come_together_for_the_shared_expert_and_part_behind_it():
    step = Hybrid(LATENT, mesh=Mesh(tensor=2, expert=2), micro_batches=1, sequence_parallel=True)
    names = [op.name for op in step.program.lists[0] if isinstance(op, Collective | Compute)]
    once = names[: names.index("backward 0 head")]
    at = [place for place, name in enumerate(once) if name == "forward 0 router"]
    assert len(at) == 3  # of four layers one is dense
    for place in at:
        assert once[place - 1 : place + 8] == [
            "forward router",
            "forward 0 router",
            "forward router",
            "forward counts",
            "forward dispatch",
            "forward routed tokens",
            "forward 0 experts",
            "forward routed tokens",
            "forward combine",
        ]
    assert once.count("forward 0 mlp") == 1


def test_latent_attention_keeps_narrow_vectors_beside_those_of_heads():
    step = Hybrid(LATENT, mesh=Mesh(tensor=2), micro_batches=1, recompute="selective")
    of_unit = Activations(model=LATENT, cut=step.cut, recompute="selective").of_unit
    dense, sparse = (of_unit(unit) for unit in LATENT.units[1:3])
    tokens, width = 64, 2
    stream = 4 * 64
    narrow = 2 * 24 + 16 + (16 + 4)
    heads = 8 * (12 + 12 + 6 + 6)
    assert dense == tokens * width * (stream + narrow + (heads + 3 * 96) // 2)
    mixed = 2 * 2 * 64 + (heads + 3 * (2 * 32 + 16)) // 2
    assert sparse == tokens * width * (stream + narrow + mixed)


def test_a_window_computes_fewer_scores_and_keeps_none():
    models = [
        Transformer(
            name="x", layers=2, hidden=64, heads=4, context=128, vocabulary=128, window=window
        )
        for window in (16, 64, 128, 0)
    ]
    steps = [Hybrid(model, mesh=Mesh(), micro_batches=1) for model in models]
    computed = [flops(step) for step in steps]
    assert all(less < more for less, more in pairwise(computed[:3]))
    assert computed[2] == computed[3]
    assert len({step.memory[0].activations for step in steps}) == 1
    assert computed == [pytest.approx(needed(step)) for step in steps]
