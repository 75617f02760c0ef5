"""GPT-2's MLP with GELU inside its products, against the same in parts and in fp32."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.train.model.gelu import fused, gelu_mlp
from steptime.train.model.mlp import MLP
from steptime.train.options import ModelOptions

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is at hand")


@pytest.mark.parametrize("tokens", [8, 300, 4096])
def test_what_it_makes_and_its_gradients_are_those_of_fp32(tokens: int) -> None:
    generator = torch.Generator("cuda").manual_seed(0)

    def drawn(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, generator=generator, device="cuda")

    whole = [drawn(tokens, 64), drawn(256, 64, scale=0.1), drawn(256), drawn(64, 256, scale=0.1)]
    own = [one.bfloat16().requires_grad_() for one in whole]
    exact = [one.detach().float().requires_grad_() for one in own]
    of_made = drawn(tokens, 64).bfloat16()
    made = gelu_mlp(*own)
    x, fc, bias, proj = exact
    expected = F.linear(F.gelu(F.linear(x, fc, bias), approximate="tanh"), proj)
    made.backward(of_made)
    expected.backward(of_made.float())

    assert apart(made, expected) < 1e-2
    for mine, other in zip(own, exact, strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert apart(mine.grad, other.grad) < 1e-2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
def test_a_compiled_mlp_trains_with_it_in_one_graph() -> None:
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("this GPU is older than what it is for")
    mlp = MLP(ModelOptions(model="nano", tokens=64).config(256)).cuda().bfloat16()
    for one in mlp.parameters():
        nn.init.normal_(one, std=0.1)
    x = torch.randn(256, 512, mlp.fc.in_features, device="cuda", dtype=torch.bfloat16)
    assert fused(x, mlp.fc.weight)
    made = torch.compile(mlp, fullgraph=True)(x)
    made.square().mean().backward()
    gradients = [one.grad for one in mlp.parameters()]
    mlp.zero_grad()
    expected = mlp.proj(F.gelu(mlp.fc(x), approximate="tanh"))
    expected.square().mean().backward()

    assert apart(made, expected) < 1e-2
    for mine, other in zip(gradients, mlp.parameters(), strict=True):
        assert mine is not None
        assert other.grad is not None
        assert apart(mine, other.grad) < 2e-2


def apart(one: Tensor, other: Tensor) -> float:
    """The distance of two tensors, for the length of the second."""
    one, other = one.detach().float(), other.detach().float()
    return float((one - other).norm() / other.norm())
