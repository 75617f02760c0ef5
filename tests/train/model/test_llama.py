"""Llama and its mixture of experts compute what their papers say, and keep less where asked to."""

from dataclasses import replace

import numpy as np
import plain_llama
import pytest
import torch

from steptime.train.model import Block, Decoder
from steptime.workloads.models import model_named

TOKENS = torch.randint(256, (2, 24), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["llama-nano", "llama-nano-moe"])
def test_logits_and_loss_are_those_of_a_plain_float64_model(name):
    model = replace(model_named(name), layers=2)
    ours = Decoder(model, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in ours.parameters():  # norms of 1 and small weights would hide mistakes
            parameter.mul_(1 + torch.rand(parameter.shape, generator=torch.Generator()) / 2)
        logits, loss = ours.logits(TOKENS).numpy(), float(ours(TOKENS[:, :-1], TOKENS[:, 1:]))
    weights = {name: p.detach().double().numpy() for name, p in ours.named_parameters()}
    sizes = {"layers": 2, "heads": model.heads, "kv_heads": model.kv_heads, "top_k": model.top_k}
    expected = np.stack([plain_llama.logits(weights, row, **sizes) for row in TOKENS.numpy()])
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    chances = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    of_next = np.take_along_axis(chances[:, :-1], TOKENS.numpy()[:, 1:, None], -1)
    assert loss == pytest.approx(-np.log(of_next).mean(), rel=1e-6)


def test_an_expert_without_tokens_has_a_gradient_of_zero():
    ours = Decoder(replace(model_named("llama-nano-moe"), layers=1), torch.Generator())
    ours(TOKENS[:1, :1], TOKENS[:1, 1:2]).backward()  # one token for two of four experts
    used = [bool(p.grad.any()) for n, p in ours.named_parameters() if n.endswith("fc.weight")]
    assert sorted(used) == [False, False, True, True]


@pytest.mark.parametrize("name", ["gpt2-nano", "llama-nano"])
def test_scores_that_are_computed_anew_are_not_kept_and_make_the_same_gradients(name):
    model = model_named(name)
    gradients, kept = [], []
    for recompute in ("none", "selective"):
        torch.manual_seed(0)
        block = Block(model, recompute=recompute)
        x = torch.randn(2, 24, model.hidden).requires_grad_()
        sizes = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda one, sizes=sizes: sizes.update({one.data_ptr(): one.nbytes}) or one,
            lambda one: one,
        ):
            out = block(x)
        kept.append(sum(sizes.values()))
        out.square().sum().backward()
        gradients.append([x.grad, *(p.grad for p in block.parameters())])
    assert kept[1] < kept[0]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6 * float(one.abs().max()))
