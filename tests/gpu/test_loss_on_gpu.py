"""The loss whose gradient is made in place of the logits, against torch's on the same GPU."""

import pytest
import torch
import torch.nn.functional as F

from steptime.train.model.loss import mean_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is at hand")


@pytest.mark.parametrize(
    ("real", "padded"), [(256, 256), (257, 384), (1020, 1152), (9000, 9088), (50257, 50304)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradients_are_those_of_torch(real: int, padded: int, dtype: torch.dtype) -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(300, 64, generator=generator, device="cuda").to(dtype)
    table = torch.randn(padded, 64, generator=generator, device="cuda").to(dtype)
    targets = torch.randint(real, (300,), generator=generator, device="cuda")
    targets[:2] = torch.tensor([0, real - 1])
    own, torch_s = ([one.clone().requires_grad_() for one in (x, table)] for _ in range(2))

    loss = mean_loss(*own, targets, real)
    (3 * loss).backward()
    expected = F.cross_entropy(F.linear(*(one.double() for one in torch_s))[:, :real], targets)
    (3 * expected).backward()

    close = 1e-5 if dtype == torch.float32 else 2e-2
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=close)
    for mine, other in zip(own, torch_s, strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        apart = (mine.grad.double() - other.grad.double()).norm() / other.grad.double().norm()
        assert float(apart) < close
    assert not own[1].grad[real:].any()
