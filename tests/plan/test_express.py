"""Measured rows as models, layouts and machines, and the reasons where that cannot be."""

import pytest

from plan_rows import row_with
from steptime.plan.express import Case, expressed, expressed_row
from steptime.plan.recipes import RECIPES, USUAL, recipe_of
from steptime.plan.rows import shipped_rows
from steptime.predict.layouts import PRECISIONS, RECOMPUTES, SCHEDULES


def case(folder, **change: str) -> Case:
    found = expressed_row(row_with(folder, **change))
    assert isinstance(found, Case), found
    return found


def why(folder, **change: str) -> str:
    found = expressed_row(row_with(folder, **change))
    assert isinstance(found, str)
    return found


def test_a_row_that_says_all_is_one_layout(tmp_path):
    found = case(tmp_path, source="nanotron", sp="yes")
    (layout,) = found.layouts
    said = {name: int(layout[name]) for name in layout.dtype.names or ()}
    assert said == {
        "tensor": 2,
        "context": 1,
        "expert": 1,
        "data": 4,
        "pipeline": 1,
        "interleave": 1,
        "micro_batches": 32,
        "rows": 2,
        "tokens": 4096,
        "zero": 1,
        "sequence_parallel": 1,
        "schedule": SCHEDULES.index("1f1b"),
        "recompute": RECOMPUTES.index("none"),
        "precision": PRECISIONS.index("bf16"),
    }
    assert found.assumed == ()
    assert found.tokens == 256 * 4096


def test_parameters_tell_a_gate_and_a_head_of_its_own(tmp_path):
    tied = case(tmp_path, params="1.34e9").model.architecture
    apart = case(tmp_path, params="1.61e9").model.architecture
    plain = case(tmp_path, params="1.07e9", model="one").model.architecture
    assert (tied.gated, tied.tied) == (True, True)
    assert (apart.gated, apart.tied) == (True, False)
    assert (plain.gated, plain.tied) == (False, True)


def test_what_is_unstated_is_said_to_be_assumed(tmp_path):
    found = case(tmp_path, micro_batch="", recompute="", zero_fsdp="", source="of nobody")
    assert [int(one) for one in found.layouts["rows"]] == [1, 2, 4, 8]
    assert found.assumed == ("micro-batches of 1 or 2 or 4 or 8", "ZeRO-1", "recompute: none")


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("FULL_SHARD", 3),
        ("SHARD_GRAD_OP", 2),
        ("ZeRO-0", 0),
        ("ZeRO-1", 1),
        ("zero1 (8)", 1),
        ("dist-opt?", 1),
        ("FSDP no reshard-after-fwd", 2),
        ("FSDP2", 3),
        ("2", 2),
        ("none", 0),
        ("DDP", 0),
    ],
)
def test_texts_about_zero(tmp_path, text, stage):
    assert int(case(tmp_path, zero_fsdp=text).layouts["zero"][0]) == stage


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("full", "full"),
        ("full (no SP)", "full"),
        ("selective+SP", "selective"),
        ("selective op", "selective"),
        ("per-op SAC", "selective"),
        ("core_attn", "selective"),
        ("none at 8K", "none"),
        ("no", "none"),
        ("null", "none"),
        ("True", "full"),
        ("activation checkpointing", "full"),
        ("84", "full"),
    ],
)
def test_texts_about_recomputation(tmp_path, text, kind):
    found = case(tmp_path, recompute=text).layouts["recompute"][0]
    assert RECOMPUTES[int(found)] == kind


@pytest.mark.parametrize("text", ["bf16", "amp_bf16", "fp16/bf16", "bf16 + fp32 grad accum"])
def test_texts_about_the_precision(tmp_path, text):
    assert PRECISIONS[int(case(tmp_path, precision=text).layouts["precision"][0])] == "bf16"


@pytest.mark.parametrize(
    "gpu",
    ["H100-SXM5-80GB", "NVIDIA H100-SXM5-80GB", "h100_80gb", "H800", "DGX-B200", "a100_40gb"],
)
def test_gpus_are_known_by_many_names(tmp_path, gpu):
    assert case(tmp_path, gpu=gpu).machine.device.flops["bf16"] > 3e14


def test_an_a100_of_40_gb_has_its_own_memory(tmp_path):
    assert case(tmp_path, gpu="a100_40gb").machine.device.memory == 40346 << 20
    assert case(tmp_path, gpu="A100-SXM4-80GB").machine.device.memory == 81101 << 20


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpu": "TPU v5p"}, "no device of ours is TPU v5p"),
        ({"precision": "nvfp4"}, "fp4"),
        ({"hidden": ""}, "hidden unstated"),
        ({"dp": "3"}, "are not its 8 GPUs"),
        ({"micro_batch": "3"}, "micro-batches of 3 do not divide the 64"),
        ({"global_batch": "255"}, "4 replicas do not divide its 255 sequences"),
        ({"global_batch": ""}, "the global batch is unstated"),
        ({"model": "SomeMoE 100B", "ep": "4"}, "the experts of SomeMoE 100B are unstated"),
        ({"model": "Llama2 70B LoRA"}, "small part of its parameters"),
        ({"model": "bert-large"}, "is no decoder"),
        ({"step_s": "0.01"}, "% of the peak: check step_s"),
        ({"kv_heads": "5"}, "5 key heads do not divide"),
    ],
)
def test_what_cannot_be_expressed_has_a_reason(tmp_path, change, says):
    assert says in why(tmp_path, **change)


def test_a_model_of_ours_fills_in_its_dimensions(tmp_path):
    gone = dict.fromkeys(("hidden", "layers", "heads", "kv_heads", "ffn", "vocab"), "")
    found = case(tmp_path, model="Llama3 8B", **gone).model
    assert (found.hidden, found.layers, found.kv_heads, found.inner) == (4096, 32, 8, 14336)
    mixture = case(tmp_path, model="Mixtral 8x7B", ep="2", n_gpus="8", **gone)
    assert mixture.model.experts == 8
    assert (int(mixture.layouts["expert"][0]), int(mixture.layouts["data"][0])) == (2, 2)


def test_every_source_that_ships_has_a_recipe():
    assert {recipe_of(row.source).title for row in shipped_rows()} <= {r.title for r in RECIPES}
    assert recipe_of("a table of nobody's") is USUAL


def test_no_shipped_row_is_dropped():
    rows = shipped_rows()
    found = expressed(rows)
    assert [one.number for one in found] == list(range(len(rows)))
    assert [one.row for one in found] == list(rows)
    reasons = {one.why for one in found if not isinstance(one, Case)}
    assert all(reasons)
