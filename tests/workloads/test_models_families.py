"""The families beside GPT against published totals."""

import pytest

from steptime.errors import UsageError
from steptime.program import Collective, check
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Transformer, model_named, model_names, transformer_of
from steptime.workloads.models.families.cosmoflow import cosmoflow
from steptime.workloads.models.families.dlrm import dlrm


def multiply_adds(unit):
    return unit.forward_flops(1) / 2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert-large", 336_226_108),
        ("llama2-7B", 6_738_415_616),
        ("llama2-13B", 13_015_864_320),
        ("llama2-70B", 68_976_648_192),
        ("llama3-8B", 8_030_261_248),
        ("llama3-70B", 70_553_706_496),
        ("llama3.1-8B", 8_030_261_248),
        ("llama3.1-70B", 70_553_706_496),
        ("llama3.1-405B", 405_853_388_800),
        ("mistral-7B", 7_241_732_096),
        ("qwen2.5-7B", 7_615_616_512),
        ("qwen3-0.6B", 596_049_920),
        ("qwen3-8B", 8_190_735_360),
        ("qwen3-32B", 32_762_123_264),
        ("qwen3-235B-A22B", 235_093_634_560),
        ("deepseek-v3", 671_026_419_200),
        ("mixtral-8x7B", 46_702_792_704),
        ("cosmoflow", 8_907_556),
        ("dlrm", 4 * 80_000 * 128 + 49_536 + 728_065),
        ("resnet50", 25_557_032),
        ("resnet152", 60_192_808),
    ],
)
def test_a_model_has_as_many_parameters_as_published(name, parameters):
    assert model_named(name).parameters == parameters


def test_bert_is_the_published_encoder_and_two_heads():
    bert = model_named("bert-large")
    embedding, first, *_, head = bert.units
    assert first.parameters == 12_596_224
    assert embedding.parameters + first.parameters == 44_379_136
    pooler = sum(t.size for t in head.tensors if "pooler" in t.name)
    assert bert.parameters - head.parameters + pooler == 335_141_888  # what is released to tune


def test_a_token_meets_two_of_eight_experts_of_mixtral():
    mixtral = model_named("mixtral-8x7B")
    assert mixtral.active_parameters == 12_879_925_248  # 12.9 B, the paper's abstract
    mlp = mixtral.units[1].parts[1]
    expert = 3 * 4096 * 14336
    assert mlp.weight_flops == 2 * (2 * expert + 8 * 4096 + 4096)
    assert mlp.multiplied == 8 * expert + 8 * 4096 + 4096
    attended = 12 * 32 * 4096 * mixtral.context
    looked_up = 32000 * 4096
    assert mixtral.flops_per_token() == 6 * (mixtral.active_parameters - looked_up) + attended


@pytest.mark.parametrize(
    # what names and technical reports say; but for Qwen's they are without the table of words
    ("name", "billions"),
    [("deepseek-v3", 36.6), ("qwen3-235B", 22.2), ("gpt-oss-20B", 3.61), ("gpt-oss-120B", 5.13)],
)
def test_a_token_meets_as_many_parameters_as_published(name, billions):
    model = model_named(name)
    table = model.vocabulary * model.hidden if name != "qwen3-235B" else 0
    assert model.active_parameters - table == pytest.approx(billions * 1e9, rel=2e-3)


def test_a_token_meets_all_parameters_where_there_are_no_experts():
    models = [model_named(name) for name in model_names()]
    without = [model for model in models if getattr(model, "experts", 1) == 1]
    assert len(models) - len(without) == 9
    assert all(model.active_parameters == model.parameters for model in without)


def test_groups_of_query_heads_share_keys_and_values():
    attention = model_named("llama3-8B").units[1].parts[0]
    shapes = {tensor.name.removeprefix("blocks.0."): tensor.shape for tensor in attention.tensors}
    assert shapes == {
        "ln1.weight": (4096,),
        "attention.q.weight": (4096, 4096),
        "attention.k.weight": (1024, 4096),
        "attention.v.weight": (1024, 4096),
        "attention.proj.weight": (4096, 4096),
    }
    # what a token attends to has as many query heads as if all had keys of their own
    assert attention.attending == 4 * 4096


@pytest.mark.parametrize(
    # the figures of torchvision, which call a multiply-add one FLOP
    ("name", "published"),
    [("resnet50", 4_089_184_256), ("resnet152", 11_513_626_624)],
)
def test_resnet_multiplies_as_often_as_published(name, published):
    assert sum(map(multiply_adds, model_named(name).units)) == published


def test_resnet_hands_on_the_maps_of_its_paper():
    units = model_named("resnet50").units
    maps = [(56, 64), *[(56, 256)] * 3, *[(28, 512)] * 4, *[(14, 1024)] * 6, *[(7, 2048)] * 3]
    assert [unit.activations for unit in units] == [*(s * s * c for s, c in maps), 1000]


def test_cosmoflow_is_the_proxies_layer_by_layer():
    model = model_named("cosmoflow")
    *convolutions, first, second, third = model.units
    assert [u.parameters for u in convolutions] == [3488, 55360, 221312, 884992, 3539456]
    assert sum(u.parameters for u in (first, second, third)) == 4 * 1_050_737
    # their times on an A100, in µs, are as the multiply-adds computed from the dimensions
    times = [6567, 13135, 6567, 3283, 1641]
    rate = multiply_adds(convolutions[1]) / times[1]
    assert [multiply_adds(u) / rate for u in convolutions] == pytest.approx(times, rel=1e-3)
    assert [u.activations for u in (convolutions[-1], first, second, third)] == [32768, 128, 64, 4]


def test_a_volume_of_half_the_side_is_an_eighth_of_the_convolutions():
    whole, half = cosmoflow("whole"), cosmoflow("half", side=64)
    for of_whole, of_half in zip(whole.units[:5], half.units[:5], strict=True):
        assert multiply_adds(of_whole) == 8 * multiply_adds(of_half)
        assert of_whole.parameters == of_half.parameters


def test_dlrm_pairs_all_its_vectors():
    tables, *bottom, interaction, top, _, _, _, last = model_named("dlrm").units
    assert tables.forward_flops(1) == 0
    assert sum(u.parameters for u in bottom) == 49_536
    assert interaction.activations == 138
    assert top.tensors[0].shape == (512, 138)
    assert last.activations == 1
    assert dlrm("more", tables=8).units[-6].activations == 128 + 9 * 8 // 2


def test_a_network_has_no_rows_of_tokens():
    model = model_named("resnet50")
    assert model.row(None) == model.row(1) == 1
    assert model.padded() is model
    with pytest.raises(UsageError, match="context is 8 and resnet50 computes with one image"):
        model.row(8)


def test_only_a_transformer_has_heads_to_cut():
    assert transformer_of(model_named("llama3-8B")).kv_heads == 8
    with pytest.raises(UsageError, match=r"dlrm is a recommendation model.* no heads"):
        transformer_of(model_named("dlrm"))


@pytest.mark.parametrize("name", ["bert-large", "llama3-8B", "cosmoflow", "dlrm", "resnet50"])
@pytest.mark.parametrize("strategy", ["replicated", "overlapped_sharded"])
def test_data_parallelism_takes_any_model(name, strategy):
    model = model_named(name)
    program = data_parallel(model, strategy, ranks=4, batch=8, clip=False)
    check(program)
    ops = program.lists[0]
    reduced = sum(op.nbytes for op in ops if isinstance(op, Collective)) // 4
    once = model.padded().parameters * (2 if "sharded" in strategy else 1)
    buckets = sum(isinstance(op, Collective) for op in ops)
    assert once <= reduced <= once + 64 * buckets
    flops = sum(op.flops for op in ops if hasattr(op, "flops"))
    assert flops == pytest.approx(2 * model.context * model.padded().flops_per_token())


def test_data_parallelism_of_a_network_has_no_context():
    with pytest.raises(UsageError, match="leave the context out"):
        data_parallel(model_named("resnet50"), "replicated", ranks=2, context=128)


def test_dimensions_of_a_mixture_that_make_none_are_refused():
    sizes = {"name": "x", "layers": 1, "hidden": 64, "heads": 4, "context": 8, "vocabulary": 9}
    with pytest.raises(UsageError, match="3 key heads do not divide the heads 4 of x"):
        Transformer(**sizes, kv_heads=3)
    with pytest.raises(UsageError, match="x sends a token through 3 of 2 experts"):
        Transformer(**sizes, experts=2, top_k=3)
    with pytest.raises(UsageError, match="x has -1 inner"):
        Transformer(**sizes, inner=-1)


def test_gradients_of_more_than_2_to_the_31_elements_are_counted_right():
    model = model_named("llama3-70B")
    program = hybrid(model, tensor=4, pipeline=8, data=2, micro_batches=8, clip=False)
    check(program)
    reduced = [
        op.nbytes // 4
        for ops in program.lists
        for op in ops
        if isinstance(op, Collective) and op.group == ("data",)
    ]
    assert len(reduced) == 8
    assert min(reduced[0], reduced[-1]) > 2**31  # with the embedding or the head
    norms = (2 * 80 + 1) * 8192  # which every tensor rank has all of
    assert 4 * sum(reduced) - 3 * norms == model.padded(4 * 128).parameters


def test_tensor_ranks_divide_the_key_heads():
    with pytest.raises(UsageError, match="16 tensor ranks do not divide the 8 key heads of llama"):
        hybrid(model_named("llama3-8B"), tensor=16, micro_batches=1)
