"""The kernels of a part: its products, its attention and what it moves besides."""

from dataclasses import replace

import pytest

from steptime.program import Compute, Kernel
from steptime.workloads.models import model_named
from steptime.workloads.models.parts import Part
from steptime.workloads.part_kernels import Share, part_kernels
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

ALONE = Share(tokens=8192, held=8192, rows=2, row=4096, tensor=1, dtype="bf16")


def part(model: str, unit: int, name: str) -> Part:
    (found,) = [one for one in model_named(model).units[unit].parts if one.name == name]
    return found


def products(kernels: tuple[Kernel, ...]) -> list[tuple[float, ...]]:
    return [one.sizes for one in kernels if one.kind == "product"]


def flops(kernels: tuple[Kernel, ...]) -> float:
    return sum(2 * m * n * k * b for m, n, k, b in products(kernels))


def test_queries_keys_and_values_are_one_product_and_so_is_a_gate_with_what_it_gates() -> None:
    attention = part_kernels(part("llama3-8B", 1, "attention"), ALONE, "forward")
    assert products(attention) == [(8192, 6144, 4096, 1), (8192, 4096, 4096, 1)]
    mlp = part_kernels(part("llama3-8B", 1, "mlp"), ALONE, "forward")
    assert products(mlp) == [(8192, 28672, 4096, 1), (8192, 4096, 14336, 1)]


def test_a_fused_matrix_and_separate_ones_are_alike() -> None:
    kernels = part_kernels(part("gpt2-124M", 1, "attention"), ALONE, "forward")
    assert products(kernels) == [(8192, 2304, 768, 1), (8192, 768, 768, 1)]


def test_tensor_ranks_divide_columns_then_rows_and_heads() -> None:
    share = replace(ALONE, tensor=4)
    kernels = part_kernels(part("llama3-8B", 1, "attention"), share, "forward")
    assert products(kernels) == [(8192, 1536, 4096, 1), (8192, 4096, 1024, 1)]
    (scores,) = [one.sizes for one in kernels if one.kind == "attention"]
    assert scores == (2, 8, 4096, 4096, 128, 1, 0)


def test_backward_has_a_product_for_each_factor_and_its_halves_are_all_of_it() -> None:
    mlp = part("llama3-8B", 1, "mlp")
    forward, backward, of_input, of_weight = (
        part_kernels(mlp, ALONE, kind)
        for kind in ("forward", "backward", "backward input", "backward weight")
    )
    assert flops(backward) == 2 * flops(forward)
    assert {*of_input, *of_weight} == {*backward}
    assert (4096, 14336, 8192, 1) in products(of_weight)


def test_what_moves_besides_is_twice_as_much_backward() -> None:
    """A block of GPT-2 reads and writes so many elements of a token between its products."""
    one = part("gpt2-124M", 1, "mlp")
    forward, backward = (
        [k for k in part_kernels(one, ALONE, kind) if k.kind == "stream"]
        for kind in ("forward", "backward")
    )
    whole = sum(k.sizes[0] * k.times for k in forward)
    assert whole == pytest.approx(2 * 8192 * (one.moved + one.moved_whole))
    assert sum(k.sizes[0] * k.times for k in backward) == pytest.approx(2 * whole)


def test_scores_that_are_computed_again_are_one_more_forward() -> None:
    attention = part("llama3-8B", 1, "attention")
    again = part_kernels(attention, ALONE, "backward", again=True)
    passes = [one.sizes[-1] for one in again if one.kind == "attention"]
    assert passes == [0.0, 1.0]


@pytest.mark.parametrize("model", ["gpt2-124M", "llama3-8B", "qwen3-8B", "mixtral-8x7B"])
def test_products_have_the_flop_of_the_part(model: str) -> None:
    """All of them: biases and norms are the rest, below three in a thousand."""
    for unit in (1, -1):
        for one in model_named(model).units[unit].parts:
            kernels = part_kernels(one, ALONE, "forward")
            assert flops(kernels) == pytest.approx(8192 * one.weight_flops, rel=3e-3), one.name


def test_experts_are_products_in_one_kernel() -> None:
    kernels = part_kernels(part("mixtral-8x7B", 1, "mlp"), ALONE, "forward")
    assert products(kernels)[1:] == [(2048, 28672, 4096, 8), (2048, 4096, 14336, 8)]


def test_experts_spread_over_ranks_meet_as_many_tokens_in_fewer_products() -> None:
    spec = StepSpec(
        model="mixtral-8x7B", ranks=8, expert=4, data=2, batch=8, tokens=1024, precision="bf16"
    )
    program = step_of(spec).program
    ops = [op for op in program.lists[0] if isinstance(op, Compute) and "experts" in op.name]
    m, n, k, batch = products(ops[0].kernels)[0]
    assert (m * batch, n, k, batch) == (2048, 28672, 4096, 2)


def test_what_multiplies_otherwise_tells_no_kernels() -> None:
    """A convolution uses each parameter at many places."""
    units = model_named("resnet50").units
    assert not any(part_kernels(one, ALONE, "forward") for one in units[1].parts)


def test_a_bert_attends_to_all_tokens() -> None:
    kernels = part_kernels(part("bert-large", 1, "attention"), ALONE, "forward")
    (scores,) = [one.sizes for one in kernels if one.kind == "attention"]
    assert scores[-2:] == (0, 0)


@pytest.mark.parametrize(("row", "keys"), [(8192, 4096), (2048, 2048)])
def test_a_window_holds_no_more_keys_than_the_row(row: int, keys: int) -> None:
    share = replace(ALONE, row=row)
    kernels = part_kernels(part("mistral-7B", 1, "attention"), share, "forward")
    (scores,) = [one.sizes for one in kernels if one.kind == "attention"]
    assert scores[3] == keys
