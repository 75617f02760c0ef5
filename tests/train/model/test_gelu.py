"""The MLP with GELU inside its products, against the same in parts."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.model.gelu import gelu_mlp


def in_parts(x: Tensor, fc: Tensor, bias: Tensor, proj: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, fc, bias), approximate="tanh"), proj)


def weights(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 3, 8), (24, 8), (24,), (8, 24)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # by the compiler itself
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_it_makes_and_its_gradients_are_those_of_the_parts(compiled: bool) -> None:
    own, plain = weights(torch.float64), weights(torch.float64)
    of_made = torch.randn(2, 3, 8, dtype=torch.float64)
    mlp = torch.compile(gelu_mlp, backend="aot_eager", fullgraph=True) if compiled else gelu_mlp
    made = mlp(*own)
    expected = in_parts(*plain)
    made.backward(of_made)
    expected.backward(of_made)

    torch.testing.assert_close(made, expected)
    for one, other in zip(own, plain, strict=True):
        torch.testing.assert_close(one.grad, other.grad)
