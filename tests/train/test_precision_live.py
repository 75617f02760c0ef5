"""The precisions on real ranks: alike on all, resumed to the bit, and where each fails.

Also what must be in fp32: norms, softmax and loss; and sums of narrow gradients.
"""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from ranks import on_ranks
from steptime.strategies import strategy_named
from steptime.train.checkpoint import load_checkpoint, read_checkpoint_info, save_checkpoint
from steptime.train.config import gpt2
from steptime.train.data import Batches
from steptime.train.job import parameter_hash
from steptime.train.loop import training_steps
from steptime.train.model.norm import LayerNorm, RMSNorm
from steptime.train.options import TrainOptions
from steptime.train.precision import LossScale, precision_of
from steptime.train.tokens import Tokens
from steptime.train.training import build_training, new_model
from steptime.units import Size

TINY = gpt2(layers=2, heads=2, hidden=32, context=32, vocabulary=128)
HALVES = (torch.bfloat16, torch.float16)
UNSCALED = LossScale(scale=1.0, patience=1 << 40)
FAINT = LossScale(scale=2.0**-20, patience=1 << 40)
"""A loss that is one of a million that add up, without any scaling."""


def start(precision, strategy="overlapped_sharded", rounding="nearest", steps=12):
    text = (np.arange(4000) % 7 * 11 % 128).astype(np.uint16)  # easily learned
    tokens = Tokens((text,), (text[:100],), 128, "a short rhyme")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return build_training(
        new_model(TINY, 0, torch.device("cpu")),
        Batches(tokens, TINY.context, batch=8, rank=rank, ranks=ranks, seed=1),
        strategy_named(strategy),
        precision_of(precision, "fp32", rounding),
        TrainOptions(batch=8, bucket=Size("4KiB"), lr_warmup=2),
        peak_learning_rate=3e-3,
        steps=steps,
    )


def curve(training, first=0, scale=None):
    losses = []
    for outcome in training_steps(training, first, scale):
        total = outcome.loss.clone()
        dist.all_reduce(total)
        losses.append(float(total) / dist.get_world_size())
    training.sync.settle()
    return losses


def alike(training):
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, parameter_hash(training))
    return len(set(digests)) == 1


def everything(folder):
    found = {}
    for name, precision, strategy, rounding in (
        ("fp32", "fp32", "overlapped_sharded", "nearest"),
        ("nearest", "bf16-params", "replicated", "nearest"),
        ("chance", "bf16-params", "replicated", "stochastic"),
        ("chance, sharded", "bf16-params", "overlapped_sharded", "stochastic"),
        ("fp8", "fp8-emulated", "overlapped_sharded", "nearest"),
        ("fp16", "fp16", "overlapped_sharded", "nearest"),
    ):
        training = start(precision, strategy, rounding)
        found[name] = curve(training)
        assert alike(training), name
    found["faint fp32"] = curve(start("fp32"), scale=FAINT)
    found["faint fp16"] = curve(start("fp16"), scale=FAINT)
    found["resumed"] = resumed(folder / "checkpoint")
    return found


def resumed(folder):
    """Whether twelve steps leave the bits of six, a checkpoint and six, moments included."""
    straight = start("bf16-params", rounding="stochastic")
    curve(straight)
    first = start("bf16-params", rounding="stochastic")
    for outcome in training_steps(first, 0):
        if outcome.step == 5:
            save_checkpoint(folder, first, 6, outcome.loss_scale)
            break
    info = read_checkpoint_info(folder)
    second = start("bf16-params", rounding="stochastic")
    step, scale = load_checkpoint(folder, second)
    curve(second, step, scale)
    same = [
        torch.equal(getattr(a, field), getattr(b, field))
        for of_a, of_b in zip(straight.optimizer.segments, second.optimizer.segments, strict=True)
        for a, b in zip(of_a, of_b, strict=True)
        for field in ("weight", "mean", "square", "step")
    ]
    return info.precision, len(same) > 8 and all(same)


@pytest.mark.slow
def test_precisions_on_two_ranks(tmp_path):
    for found in on_ranks(2, everything, tmp_path, tmp_path):
        reference = found["fp32"]
        assert reference[0] - reference[-1] > 0.5
        for name in ("nearest", "chance", "chance, sharded", "fp8", "fp16"):
            np.testing.assert_allclose(found[name], reference, rtol=0.1, err_msg=name)
            assert found[name] != reference
        assert found["chance"] != found["nearest"]
        # A loss that is one part in a million trains all the same in fp32, and not at all in fp16.
        np.testing.assert_allclose(found["faint fp32"], reference, rtol=1e-3)
        assert found["faint fp16"][0] - found["faint fp16"][-1] < 0.05
        assert found["resumed"] == ("bf16-params", True)


def vanished():
    """Of a model's fp16 gradients, the shares that are zero by scale; of those in fp32 first."""
    shares = []
    for precision, scale in (("fp32", UNSCALED), ("fp16", UNSCALED), ("fp16", None)):
        training = start(precision, "replicated")
        faint = 2.0**-14 * (scale or LossScale()).scale
        next(training_steps(training, 0, LossScale(faint, patience=1 << 40)))
        slots = [s for s in training.flat.layout.slots if s.name.startswith("blocks.")]
        values = torch.cat([training.flat.gradients[slot.span.slice] for slot in slots])
        shares.append(float((values == 0).double().mean()))
    return shares


def test_gradients_vanish_in_fp16_unless_they_are_scaled(tmp_path):
    assert torch.tensor(2.0**-26).to(torch.float16) == 0  # the least number is 2^-24, 6e-8
    in_fp32, unscaled, scaled = on_ranks(1, vanished, tmp_path)[0]
    assert in_fp32 < 0.01
    assert unscaled > 0.5
    assert scaled < 0.01


@pytest.mark.parametrize("dtype", HALVES)
def test_norms_and_softmax_are_those_of_fp32_rounded_once_or_twice(dtype):
    unit = float(torch.finfo(dtype).eps)
    # Beside a mean of 256 or 2048 these differences are the last bits: its square has none of them.
    offset = 2 / unit
    x = offset + 2 * torch.randint(0, 4, (64, 512), generator=torch.Generator().manual_seed(0))
    for module in (LayerNorm(512, 1e-5), RMSNorm(512, 1e-5)):
        found = module.to(dtype)(x.to(dtype)).double()
        wide = x.double()
        if isinstance(module, LayerNorm):
            wide = wide - wide.mean(dim=-1, keepdim=True)
        exact = wide / wide.square().mean(dim=-1, keepdim=True).sqrt()
        torch.testing.assert_close(found, exact, rtol=unit, atol=unit / 8)
    # 1024 equal scores: a sum of their exponentials in half precision stands still long before.
    q = torch.zeros(1, 4, 1024, 16, dtype=dtype)
    v = torch.ones(1, 2, 1024, 16, dtype=dtype)
    for enable_gqa, keys in ((True, v), (False, v.repeat(1, 2, 1, 1))):
        made = F.scaled_dot_product_attention(q, keys, keys, is_causal=True, enable_gqa=enable_gqa)
        torch.testing.assert_close(
            made.double(), torch.ones(q.shape).double(), rtol=2 * unit, atol=0
        )
    model = new_model(TINY, 0, torch.device("cpu")).to(dtype)
    tokens = torch.zeros(1, 8, dtype=torch.int64)
    assert model(tokens, tokens).dtype == torch.float32
    assert model.logits(tokens).dtype == torch.float32


def reduced_narrow():
    """For each dtype, how far each reduction's worst element is from the exact one, in roundings.

    Of the built-in algorithms first, then of a chosen one for each.
    """
    from steptime.backend import Options

    rank, ranks = dist.get_rank(), dist.get_world_size()
    chosen = Options(
        algorithms={"all_reduce": "ring", "reduce_scatter": "ring", "reduce": "binomial"}
    )
    groups = [dist.new_group(backend="steptime", pg_options=options) for options in (None, chosen)]
    worst = {}
    for dtype in HALVES:
        draws = [
            torch.randn(8 * 999, generator=torch.Generator().manual_seed(r)) for r in range(ranks)
        ]
        vectors = [draw.to(dtype) for draw in draws]
        exact = torch.stack(vectors).double().sum(dim=0)
        sizes = torch.stack(vectors).double().abs().sum(dim=0)
        # Half a unit of the exact sum's last place, and what fp32 may lose on the way.
        least = float(torch.finfo(dtype).smallest_normal)
        unit = torch.exp2(exact.abs().clamp(min=least).log2().floor()) * torch.finfo(dtype).eps
        allowed = unit / 2 + ranks * 2.0**-24 * sizes
        for number, group in enumerate(groups):
            total = vectors[rank].clone()
            dist.all_reduce(total, group=group)
            own = torch.empty(999, dtype=dtype)
            dist.reduce_scatter_single(own, vectors[rank].clone(), group=group)
            rooted = vectors[rank].clone()
            dist.reduce(rooted, group=group, group_dst=3)
            mine = slice(999 * rank, 999 * (rank + 1))
            errors = [
                (total.double() - exact).abs() / allowed,
                (own.double() - exact[mine]).abs() / allowed[mine],
                *([(rooted.double() - exact).abs() / allowed] if rank == 3 else []),
            ]
            worst[str(dtype), number] = [float(error.max()) for error in errors]
    return worst


def test_a_narrow_sum_over_eight_ranks_is_off_by_one_rounding(tmp_path):
    for found in on_ranks(8, reduced_narrow, tmp_path):
        assert len(found) == 4
        for case, errors in found.items():
            assert max(errors) <= 1, case
