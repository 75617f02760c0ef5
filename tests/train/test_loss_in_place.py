"""The loss that makes its gradient in place of the logits, without the kernel of a GPU."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.model import loss as own

WORDS, PADDED, TOKENS, CHANNELS = 37, 40, 30, 8


@pytest.mark.slow
def test_no_rank_imports_a_compiler_where_nothing_is_compiled() -> None:
    asked = "import sys, steptime.train.job\nprint('torch._dynamo' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "False\n"


def _in_place(logits: Tensor, targets: Tensor, real: int) -> Tensor:
    """What the kernel does."""
    assert not torch.compiler.is_compiling()
    losses = F.cross_entropy(logits[:, :real], targets, reduction="none")
    gradient = F.softmax(logits[:, :real], dim=1) - F.one_hot(targets, real)
    logits.zero_()
    logits[:, :real] = gradient / len(targets)
    return losses


# The compiler asks what is no leaf for its gradient.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_compiled_unit_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "loss_and_gradient", _in_place)
    torch.manual_seed(0)
    x = torch.randn(TOKENS, CHANNELS, requires_grad=True)
    table = torch.randn(PADDED, CHANNELS, requires_grad=True)
    targets = torch.randint(WORDS, (TOKENS,))

    def unit(x: Tensor, table: Tensor) -> Tensor:
        return own.mean_loss(2 * x, table, targets, WORDS) * 3

    found = torch.compile(unit, backend="aot_eager")(x, table)
    expected = 3 * F.cross_entropy(F.linear(2 * x, table)[:, :WORDS], targets)
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(loss, (x, table)) for loss in (found, expected))
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other)
