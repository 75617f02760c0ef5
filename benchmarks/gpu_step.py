"""Training steps of a GPT-2 on one GPU: steptime's loop beside a plain nanoGPT-style loop.

    python benchmarks/gpu_step.py [--model 124M] [--rows 64] [--accumulate 8] [--context 1024]
        [--steps 4] [--blocks 3] [--parts | --bare]

The plain loop is what a careful user writes (``cpu_step.py``): scaled_dot_product_attention,
autocast to bf16, torch.compile of the whole model, fused AdamW, a clipped norm, a vocabulary padded
to a multiple of 128; its rows lie on the GPU. steptime's is that of ``steptime train``, data and
recorder included. Blocks of steps of both alternate in one process; a block ends when the GPU is
done.

MFU = (6 · parameters + 12 · layers · hidden · context) · tokens/s / dense bf16 peak, with all
parameters: positions and padding too. ``--parts``: instead, where the time of steptime's step goes,
by kernels, as torch.profiler has it. ``--bare``: instead, what no loop can leave out, alone, on
tensors that are there already: the products, and attention.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from cpu_step import VOCABULARY, PlainGPT2, step_of
from one_gpu import on_one_gpu
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from steptime.cluster.known_gpus import gpu_named
from steptime.strategies import strategy_named
from steptime.train.data import Batches
from steptime.train.loop import training_steps
from steptime.train.options import ModelOptions, TrainOptions
from steptime.train.precision import precision_of
from steptime.train.tokens import Tokens
from steptime.train.training import build_training, new_model
from steptime.workloads.models import Transformer
from steptime.world.clock import recorder_for

WARMUP = 3
Step = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One training: a model and the rows of a step, in so many micro-batches."""

    config: Transformer
    rows: int
    accumulate: int
    context: int

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.rows * self.accumulate * self.context

    @property
    def flop(self) -> float:
        """FLOP of a token, by the formula above."""
        padded = self.config.padded()
        return 6 * padded.parameters + 12 * padded.layers * padded.hidden * self.context

    def mfu(self, seconds: float, peak: float) -> float:
        """The share of the peak, in FLOP/s, that a step of so many seconds uses."""
        return self.tokens * self.flop / seconds / peak


def plain(case: Case, device: torch.device) -> Step:
    """A step of the plain loop, on random tokens that lie there."""
    torch.manual_seed(0)
    with device:
        model = PlainGPT2(case.config)
        x, y = (torch.randint(VOCABULARY, (case.rows, case.context)) for _ in range(2))
    return step_of(
        model, torch.compile(model), x, y, bf16=True, fused=True, micro_batches=case.accumulate
    )


def own(case: Case, device: torch.device) -> Step:
    """A step of steptime's loop, as ``steptime train`` runs it."""
    count = (4 * case.rows * case.accumulate + 2) * case.context
    ids = np.random.default_rng(0).integers(VOCABULARY, size=count).astype("uint16")
    tokens = Tokens(
        train=(ids,), validation=(ids,), vocabulary=VOCABULARY, source="random", tokenizer=None
    )
    batch = case.rows * case.accumulate
    training = build_training(
        new_model(case.config, 0, device),
        Batches(tokens, case.context, batch, 0, 1, 0),
        strategy_named("overlapped_sharded"),
        precision_of("bf16", "fp32"),
        TrainOptions(batch=batch, accumulate=case.accumulate),
        peak_learning_rate=6e-4,
        steps=1_000_000,
        compiled=True,
        recorder=recorder_for(device),
    )
    steps = training_steps(training, 0)
    return lambda: (next(steps), None)[1]


def block(step: Step, steps: int) -> float:
    """Seconds of a step, of so many one after the other."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps


def peak_gb(step: Step) -> float:
    """The most memory that tensors take in a step, in GB."""
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e9


def parts(step: Step, shown: int = 40) -> str:
    """Kernels of a step by their time."""
    for _ in range(WARMUP):
        step()
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        step()
        torch.cuda.synchronize()
    table: str = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=shown)
    return table


def bare_parts(case: Case, device: torch.device) -> dict[str, Step]:
    """The products and the attention of a micro-batch, forward and backward, by kind."""
    config, tokens = case.config, case.rows * case.context
    C, heads = config.hidden, config.heads
    block = [(3 * C, C), (C, C), (4 * C, C), (C, 4 * C)]
    shapes = [(shape, config.layers) for shape in block] + [((config.padded().vocabulary, C), 1)]

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, device=device)

    sets = [
        (random(tokens, columns), random(lines, columns), random(tokens, lines), times)
        for (lines, columns), times in shapes
    ]
    q, k, v = (
        random(case.rows, heads, case.context, C // heads).requires_grad_() for _ in range(3)
    )
    of_out = torch.randn_like(q)

    def products() -> None:
        for x, weight, y, times in sets:
            for _ in range(times):
                _ = x @ weight.t(), y @ weight, y.t() @ x

    def attention() -> None:
        for _ in range(config.layers):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(of_out)

    return {"products": products, "attention": attention}


def show_bare(case: Case, device: torch.device, peak: float) -> None:
    """Time what no loop can leave out, and say what MFU a step of nothing else would have."""
    one = replace(case, accumulate=1)
    whole = 0.0
    for name, part in bare_parts(case, device).items():
        block(part, 2)
        seconds = statistics.median(block(part, 8) for _ in range(3))
        whole += seconds
        print(f"{name:<12}{1e3 * seconds:9.1f} ms a micro-batch")
    print(
        f"both        {1e3 * whole:9.1f} ms: {100 * one.mfu(whole, peak):.1f} % MFU, all else free"
    )


def show(name: str, case: Case, seconds: Sequence[float], peak: float, memory: float) -> None:
    """A line of the table."""
    middle = statistics.median(seconds)
    print(
        f"{name:<12}{1e3 * middle:9.1f}   {1e3 * min(seconds):.1f}–{1e3 * max(seconds):.1f}"
        f"{case.tokens / middle:13,.0f}{100 * case.mfu(middle, peak):8.1f}{memory:9.1f}",
        flush=True,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="124M")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--bare", action="store_true")
    return parser.parse_args()


def measure(asked: argparse.Namespace, device: torch.device) -> None:
    config = ModelOptions(model=asked.model, tokens=asked.context).config(VOCABULARY)
    case = Case(config, asked.rows, asked.accumulate, asked.context)
    name = torch.cuda.get_device_name(device)
    known = gpu_named(name)
    peak = known.flops["bf16"] if known else float("nan")
    print(
        f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}\n"
        f"GPT-2 {asked.model}, bf16, {asked.accumulate} micro-batches of {asked.rows} rows of "
        f"{asked.context}: {case.tokens:,} tokens a step, {case.flop / 1e6:.0f} MFLOP each\n"
        f"MFU of {peak / 1e12:.0f} TFLOP/s\n"
    )
    if asked.bare:
        show_bare(case, device, peak)
    elif asked.parts:
        print(parts(own(case, device)))
    else:
        contest(case, device, asked, peak)


def contest(case: Case, device: torch.device, asked: argparse.Namespace, peak: float) -> None:
    """Time both loops in turns."""
    print("loop        ms a step   least–most     tokens/s   MFU %  peak GB")
    loops = {"plain": plain(case, device), "steptime": own(case, device)}
    memory, seconds = {}, {name: list[float]() for name in loops}
    for name, step in loops.items():
        for _ in range(WARMUP):
            step()
        memory[name] = peak_gb(step)
    for number in range(asked.blocks):
        for name in list(loops)[:: 1 if number % 2 else -1]:
            seconds[name].append(block(loops[name], asked.steps))
    for name, times in seconds.items():
        show(name, case, times, peak, memory[name])


if __name__ == "__main__":
    on_one_gpu(partial(measure, arguments()))
