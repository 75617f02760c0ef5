"""Models by their dimensions: named ones with some changed, and families with all of them."""

from dataclasses import replace

import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Compute, Program
from steptime.workloads.models import Transformer, model_by_dimensions, model_named
from steptime.workloads.resolve import model_of, resolved
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

GPT = StepSpec(model="gpt", layers=2, hidden=64, heads=4, vocabulary=512, tokens=32, ranks=1)


def transformer(name: str, **given: int) -> Transformer:
    model = model_by_dimensions(name, given)
    assert isinstance(model, Transformer)
    return model


def test_a_family_with_the_dimensions_of_a_model_is_that_model() -> None:
    own = transformer("gpt", layers=12, hidden=768, heads=12)
    known = model_named("gpt2-124M")
    assert own.parameters - known.parameters == (own.context - known.context) * 768  # positions
    own = transformer(
        "llama", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256
    )
    assert own.parameters == model_named("llama3-8B").parameters


def test_a_family_has_positions_for_the_tokens_asked_for() -> None:
    long = model_of(replace(GPT, tokens=65536))
    assert long.row(None) == 65536
    assert model_of(replace(GPT, tokens=None)).row(None) == 2048


def test_a_named_model_keeps_what_is_not_changed() -> None:
    small = transformer("gpt2-124M", layers=6, hidden=384, heads=6)
    assert (small.layers, small.inner, small.kv_heads) == (6, 4 * 384, 6)
    assert (small.vocabulary, small.context) == (50257, 1024)
    llama = transformer("llama3-8B", heads=16)
    assert (llama.kv_heads, llama.inner) == (8, 14336)
    assert transformer("llama3-8B", vocabulary=1024).parameters < 8.0e9


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("llama", {"layers": 2, "hidden": 64, "heads": 4}, "family of models.*give --ffn too"),
        ("gpt", {}, "give --layers, --hidden, --heads too"),
        ("llama3-8B", {"hidden": 2048}, "14,336 wide at --hidden 4,096.*give --ffn too"),
        ("resnet50", {"heads": 4}, "--heads is a dimension of transformers, and resnet50"),
        ("gpt2-124M", {"heads": 7}, "7 heads do not divide the hidden size 768"),
        ("llama3-8B", {"kv_heads": 5}, "5 key heads do not divide the heads 32"),
    ],
)
def test_dimensions_that_do_not_make_a_model_are_refused(
    name: str, given: dict[str, int], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        model_by_dimensions(name, given)


def test_a_family_alone_is_no_model() -> None:
    with pytest.raises(UsageError, match="llama is a family of models and no model"):
        model_named("llama")


def test_the_specification_keeps_the_dimensions() -> None:
    full = resolved(GPT, model_of(GPT))
    assert (full.model, full.layers, full.hidden, full.heads) == ("gpt", 2, 64, 4)
    assert (full.kv_heads, full.ffn, full.vocabulary) == (None, None, 512)


def computes(program: Program) -> list[Compute]:
    return [op for ops in program.lists for op in ops if isinstance(op, Compute)]


@pytest.mark.parametrize("tensor", [None, 2])
def test_fp8_is_of_the_products_of_blocks_alone(tensor: int | None) -> None:
    spec = replace(GPT, tensor=tensor, ranks=2, precision="bf16", strategy="replicated")
    plain, fp8 = step_of(spec).program, step_of(replace(spec, precision="fp8")).program
    flops = {"bf16": sum(op.flops for op in computes(plain) if op.dtype == "bf16")}
    of = {dtype: [op for op in computes(fp8) if op.dtype == dtype] for dtype in ("fp8", "bf16")}
    assert sum(op.flops for ops in of.values() for op in ops) == pytest.approx(flops["bf16"])
    assert all("block" in op.name or "attention" in op.name or "mlp" in op.name for op in of["fp8"])
    named = {op.name.split()[-1] for op in of["bf16"]}
    assert named == {"scores", "embedding", "head"}
    scores = next(op.flops for op in of["bf16"] if op.name.endswith("scores"))
    rows = step_of(spec).spec.rows or 0
    assert scores == rows * 32 * 32 * 4 * 64 / (tensor or 1)
    calls = {
        getattr(op, "nbytes", 0) for ops in plain.lists for op in ops if op.stream != "compute"
    }
    there = {getattr(op, "nbytes", 0) for ops in fp8.lists for op in ops if op.stream != "compute"}
    assert calls == there
    assert step_of(spec).memory == step_of(replace(spec, precision="fp8")).memory


def test_fp8_is_refused_where_there_is_none_and_the_nearest_is_said() -> None:
    with pytest.raises(UsageError, match=r"no rate for fp8.*the nearest is --precision bf16"):
        step_of(replace(GPT, precision="fp8"), cluster_named("dgx-a100"))
    with pytest.raises(UsageError, match="fp8 is for the matrix products of transformers"):
        step_of(StepSpec(model="resnet50", ranks=1, precision="fp8"), cluster_named("dgx-h100"))
