"""fp8, emulated: exact where the format is, and as wrong as the format elsewhere."""

import torch
import torch.nn.functional as F
from torch import nn

from steptime.train.config import gpt2
from steptime.train.fp8 import Fp8Linear, emulate_fp8, rounded
from steptime.train.model import Decoder


def grid(shape, largest, seed):
    """Numbers of few bits that both formats have, the largest among them."""
    numbers = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()
    numbers.view(-1)[0] = 1.0
    return numbers.clamp(-1, 1) * largest


def test_products_of_numbers_that_fp8_has_are_exact_forward_and_backward():
    layer = nn.Linear(32, 16)
    layer.weight.data = grid((16, 32), 448 / 64, 0)
    plain = nn.Linear(32, 16)
    plain.load_state_dict(layer.state_dict())
    emulate_fp8(layer_in := nn.Sequential(layer))
    assert isinstance(layer_in[0], Fp8Linear)
    x = grid((3, 5, 32), 448 / 16, 1)
    gradient = grid((3, 5, 16), 57344 / 1024, 2)
    found = []
    for one in (layer, plain):
        inputs = x.clone().requires_grad_()
        out = one(inputs)
        out.backward(gradient)
        found.append((out, inputs.grad, one.weight.grad, one.bias.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-4)


def test_each_element_is_off_by_at_most_half_a_step_of_the_format():
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    for dtype, bits, least in ((torch.float8_e4m3fn, 3, -6), (torch.float8_e5m2, 2, -14)):
        found, factor = rounded(x, dtype)
        scaled = (x / factor).double()
        step = torch.exp2(scaled.abs().log2().floor().clamp(min=least) - bits)
        assert bool(((found.double() - scaled).abs() <= step / 2).all())
        assert float(found.float().abs().max()) == torch.finfo(dtype).max
        zeros, _ = rounded(torch.zeros(4), dtype)
        assert not zeros.float().any()
        for bad in (float("inf"), float("nan")):
            spoilt, undo = rounded(torch.tensor([1.0, bad]), dtype)
            assert bool((spoilt.float() * undo).isnan().any())


def test_all_products_of_blocks_are_emulated_and_none_elsewhere():
    model = Decoder(
        gpt2(layers=2, heads=2, hidden=16, context=8, vocabulary=300),
        torch.Generator().manual_seed(0),
    )
    tokens = torch.randint(0, 300, (2, 8), generator=torch.Generator().manual_seed(1))
    exact = float(model(tokens, tokens).detach())
    emulate_fp8(model)
    linears = {name for name, one in model.named_modules() if isinstance(one, nn.Linear)}
    emulated = {name for name, one in model.named_modules() if isinstance(one, Fp8Linear)}
    assert linears == emulated
    assert len(emulated) == 2 * 4
    loss = float(model(tokens, tokens).detach())
    assert loss != exact
    assert abs(loss - exact) < 0.05 * exact
    # The head's product is none of theirs: the same hidden state gives the same logits.
    x, table = model.hidden(tokens)
    whole = F.linear(model.head.ln(x), table)[..., :300]
    torch.testing.assert_close(model.head.logits(x, table), whole)


def test_gradients_have_the_range_of_e5m2_and_inputs_that_of_e4m3():
    layer = nn.Linear(1, 2, bias=False)
    layer.weight.data = torch.tensor([[1.0], [0.0]])
    emulate_fp8(nn.Sequential(layer))
    faint = 2.0**-25  # of the largest: e5m2 reaches down to 2^-32 of it, e4m3 to 2^-18
    x = torch.tensor([[1.0], [faint]]).requires_grad_()
    layer(x).backward(torch.tensor([[faint, 1.0], [faint, 1.0]]))
    assert layer(x)[1, 0] == 0
    torch.testing.assert_close(x.grad, torch.full((2, 1), faint), rtol=0.2, atol=0)
