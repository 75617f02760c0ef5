"""One training step of GPT-2 124M on all cores: steptime's loop beside plain PyTorch's.

    python benchmarks/cpu_step.py [--pairs 15] [--threads N] [--parts] [--bare]

The plain loop is what a careful user writes: scaled_dot_product_attention, autocast, torch.compile
of the whole model, fused AdamW, set_to_none, clip_grad_norm_. Steps of both alternate in one run,
on one batch of random tokens; the ratio is the median over the pairs. Then: what each part gives,
and the share of the cores' own matrix-product peak. ``--parts``: instead, where the time of
steptime's bf16 step goes, as torch.profiler has it, by operators. ``--bare``: what no loop with
fp32 weights and bf16 products can leave out, alone, on tensors that are there already: the
products, AdamW, and the casts between the two.
"""

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.strategies import strategy_named
from steptime.train.data import Batches
from steptime.train.loop import training_steps
from steptime.train.options import ModelOptions, TrainOptions
from steptime.train.precision import precision_of
from steptime.train.tokens import Tokens
from steptime.train.training import build_training, new_model
from steptime.workloads.models import Transformer
from steptime.world.freed_memory import keep_freed_memory

BATCH, CONTEXT, VOCABULARY = 4, 64, 50257
WARMUP = 3


class PlainBlock(nn.Module):
    def __init__(self, config: Transformer) -> None:
        super().__init__()
        C = config.hidden
        self.heads = config.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.c_attn, self.c_proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.c_fc, self.c_out = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class PlainGPT2(nn.Module):
    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.padded().vocabulary, config.hidden)
        self.wpe = nn.Embedding(config.context, config.hidden)
        self.blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.hidden)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def plain_step(
    config: Transformer, x: Tensor, y: Tensor, *, bf16: bool, compiled: bool, fused: bool = True
) -> Callable[[], None]:
    torch.manual_seed(0)
    model = PlainGPT2(config)
    forward = torch.compile(model) if compiled else model
    return step_of(model, forward, x, y, bf16=bf16, fused=fused)


def step_of(
    model: nn.Module,
    forward: Callable[..., Tensor],
    x: Tensor,
    y: Tensor,
    *,
    bf16: bool,
    fused: bool,
    micro_batches: int = 1,
) -> Callable[[], None]:
    """A step on one batch, so many times; ``forward``: the model's loss, which may be compiled."""
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=fused)
    context = torch.autocast(x.device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()

    def step() -> None:
        for _ in range(micro_batches):
            with context:
                loss = forward(x, y) / micro_batches
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def random_tokens() -> Tokens:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(VOCABULARY, (40_000,), generator=generator).numpy().astype("uint16")
    return Tokens(
        train=(ids,), validation=(ids,), vocabulary=VOCABULARY, source="random", tokenizer=None
    )


def steptime_step(
    config: Transformer,
    batches: Batches,
    *,
    bf16: bool,
    compiled: bool = False,
    strategy: str = "overlapped_sharded",
) -> Callable[[], None]:
    training = build_training(
        new_model(config, 0, torch.device("cpu")),
        batches,
        strategy_named(strategy),
        precision_of("bf16" if bf16 else "fp32", "fp32"),
        TrainOptions(batch=batches.batch),
        peak_learning_rate=6e-4,
        steps=1_000_000,
        compiled=compiled,
    )
    steps = training_steps(training, 0)
    return lambda: (next(steps), None)[1]


PARTS = {
    "matrix products": ("mm", "addmm", "bmm", "matmul"),
    "attention": ("scaled_dot_product",),
    "casts and copies": ("copy_",),
    "AdamW": ("_fused_adamw_",),
    "norm of the gradient": ("linalg_vector_norm",),
    "layer norms": ("native_layer_norm",),
    "GELU": ("gelu",),
    "softmax and loss": ("log_softmax", "nll_loss"),
    "embedding": ("embedding", "index_select", "index_put", "index_add"),
    "sums: residuals, biases, accumulation": ("add", "sum", "AccumulateGrad"),
}
"""Operators by the beginning of their names; what is left is ``other``."""


def parts(step: Callable[[], None], steps: int = 5) -> dict[str, float]:
    """Seconds of a step by part, the largest first."""
    for _ in range(WARMUP):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(steps):
            step()
    found = dict.fromkeys([*PARTS, "other"], 0.0)
    for one in profile.key_averages():
        name = one.key.removeprefix("aten::").removeprefix("torch::autograd::").lstrip("_")
        part = next(
            (
                part
                for part, begins in PARTS.items()
                if name.startswith(tuple(word.lstrip("_") for word in begins))
            ),
            "other",
        )
        found[part] += one.self_cpu_time_total / 1e6 / steps
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def bare_parts(config: Transformer) -> dict[str, Callable[[], None]]:
    """What each step must do, without attention, activations, norms, loss or autograd."""
    C, rows = config.hidden, BATCH * CONTEXT
    block = [(3 * C, C), (C, C), (4 * C, C), (C, 4 * C)]
    shapes = [*block * config.layers, (config.padded().vocabulary, C)]
    weights = [torch.randn(shape) for shape in shapes]
    gradients, first, second = ([torch.rand_like(one) for one in weights] for _ in range(3))
    cast, reduced = ([one.bfloat16() for one in weights] for _ in range(2))
    inputs = [torch.randn(rows, columns).bfloat16() for _, columns in shapes]
    outputs = [torch.randn(rows, lines).bfloat16() for lines, _ in shapes]
    steps = [torch.ones(()) for _ in weights]

    def products() -> None:
        for x, weight, y in zip(inputs, cast, outputs, strict=True):
            torch.mm(x, weight.t(), out=y)
        for x, weight, y, gradient in zip(inputs, cast, outputs, reduced, strict=True):
            torch.mm(y.t(), x, out=gradient)
            torch.mm(y, weight, out=x)

    def casts() -> None:
        for weight, low in zip(weights, cast, strict=True):
            low.copy_(weight)
        for gradient, low in zip(gradients, reduced, strict=True):
            gradient.copy_(low)

    def adamw() -> None:
        torch._fused_adamw_(
            weights,
            gradients,
            first,
            second,
            [],
            steps,
            amsgrad=False,
            lr=1e-6,
            beta1=0.9,
            beta2=0.95,
            weight_decay=0.1,
            eps=1e-8,
            maximize=False,
        )

    return {"matrix products": products, "AdamW": adamw, "casts": casts}


def timed(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def median_of(step: Callable[[], None], times: int = 11) -> float:
    """The median of the seconds, once warm."""
    return statistics.median([timed(step) for _ in range(WARMUP + times)][WARMUP:])


def paired(first: Callable[[], None], second: Callable[[], None], pairs: int) -> list[list[float]]:
    """Seconds of each, alternating which of the two goes first."""
    for _ in range(WARMUP):
        first()
        second()
    times: list[list[float]] = [[], []]
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            times[which].append(timed((first, second)[which]))
    return times


def matrix_peak(dtype: torch.dtype) -> float:
    """FLOP/s of a 2048³ matrix product, the best of twenty."""
    n = 2048
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    return 2 * n**3 / min(timed(lambda: torch.mm(a, b)) for _ in range(20))


def print_parts(shown: dict[str, float], at_peak: float) -> None:
    whole = sum(shown.values())
    for part, seconds in {**shown, "step": whole}.items():
        print(f"{part:<40}{1e3 * seconds:6.0f} ms{seconds / whole:7.0%}")
    print(f"{'all products at the peak':<40}{1e3 * at_peak:6.0f} ms{at_peak / whole:7.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--page-faults",
        action="store_true",
        help="leave malloc as it is, for both loops: steptime's ranks keep freed memory",
    )
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.page_faults:
        keep_freed_memory()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    config = ModelOptions(model="124M", tokens=CONTEXT).config(VOCABULARY)
    batches = Batches(random_tokens(), CONTEXT, BATCH, 0, 1, 0)
    x, y = (torch.from_numpy(rows) for rows in batches.at(0))
    flop = config.flops_per_token() * BATCH * CONTEXT
    print(
        f"load {os.getloadavg()[0]:.2f}; {options.threads} threads; {flop / 1e9:.1f} GFLOP a step"
    )
    peaks = {False: matrix_peak(torch.float32), True: matrix_peak(torch.bfloat16)}
    print(f"matrix peak: fp32 {peaks[False] / 1e9:.0f}, bf16 {peaks[True] / 1e9:.0f} GFLOP/s\n")
    if options.parts or options.bare:
        shown = (
            {name: median_of(part) for name, part in bare_parts(config).items()}
            if options.bare
            else parts(steptime_step(config, batches, bf16=True))
        )
        print_parts(shown, flop / peaks[True])
        dist.destroy_process_group()
        return

    print("loop                       plain ms  steptime ms  ratio  tokens/s  of peak")
    for bf16, compiled in ((False, False), (False, True), (True, False), (True, True)):
        ours = steptime_step(config, batches, bf16=bf16, compiled=compiled)
        plain = plain_step(config, x, y, bf16=bf16, compiled=compiled)
        times = paired(ours, plain, options.pairs)
        ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
        mine, other = (statistics.median(column) for column in times)
        name = f"{'bf16' if bf16 else 'fp32'}, {'compiled' if compiled else 'eager'}"
        print(
            f"{name:<25}  {1e3 * other:8.0f}  {1e3 * mine:11.0f}  {ratio:5.3f}"
            f"  {BATCH * CONTEXT / mine:8.0f}  {flop / mine / peaks[bf16]:6.0%}"
        )
    slow = plain_step(config, x, y, bf16=False, compiled=False, fused=False)
    fast = plain_step(config, x, y, bf16=False, compiled=False)
    times = paired(slow, fast, options.pairs)
    apart = statistics.median(a - b for a, b in zip(*times, strict=True))
    print(f"\nfused AdamW takes {1e3 * apart:.0f} ms off the plain fp32 eager step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
