"""The matrices of a block, beside the multiplications that its parts are counted with."""

import pytest

from steptime.workloads.matrices import Matrix, attention_matrices, head_matrix, mlp_matrices
from steptime.workloads.models import Transformer, Unit, model_named

MODELS = ("gpt2-124M", "llama3-8B", "mixtral-8x7B", "qwen3-235B-A22B", "deepseek-v3", "gpt-oss-20B")


def multiply_adds(matrices: tuple[Matrix, ...]) -> int:
    """What a token is multiplied with."""
    return sum(one.outputs * one.inputs * one.met for one in matrices)


def of_part(unit: Unit, name: str) -> float:
    (part,) = [one for one in unit.parts if one.name == name]
    return part.weight_flops / 2


@pytest.mark.parametrize("name", MODELS)
def test_matrices_multiply_what_the_parts_of_a_model_do(name: str) -> None:
    """Biases and norms are the rest, below three in a thousand."""
    model = model_named(name)
    assert isinstance(model, Transformer)
    first, last = model.units[1], model.units[-2]
    for unit in (first, last):
        dense = not any(tensor.expert for tensor in unit.tensors)
        mlp = multiply_adds(mlp_matrices(model, dense=dense))
        assert mlp == pytest.approx(of_part(unit, "mlp"), rel=3e-3)
        attention = multiply_adds(attention_matrices(model))
        assert attention == pytest.approx(of_part(unit, "attention"), rel=3e-3)
    head = multiply_adds((head_matrix(model),))
    whole = sum(part.weight_flops for part in model.units[-1].parts) / 2
    assert head == pytest.approx(whole, rel=3e-3)


def test_a_model_without_experts_has_one_mlp_and_no_router() -> None:
    model = model_named("llama3-8B")
    assert isinstance(model, Transformer)
    assert mlp_matrices(model, dense=False) == mlp_matrices(model, dense=True)
    assert {one.name for one in mlp_matrices(model, dense=False)} == {"mlp in", "mlp out"}
