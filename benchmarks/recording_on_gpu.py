"""What steptime record costs on a GPU: the same steps with it and without, block about.

    python benchmarks/recording_on_gpu.py [--pairs 20] [--seconds 0.5]

One rank on NCCL. ``a call``: all_reduce of 4 bytes, queued one after the other; the steps: DDP of a
toy of 18 buckets a step, and DDP and FSDP2 of GPT-2 124M in bf16, 16 rows of 1,024 tokens. A block
begins with work that does not count, and ends when the GPU is done; the recording starts and ends
between blocks, which alternate. Said of each: how long it takes without, what is added, with its
95 % interval, and the least and the most memory that the GPU's tensors took.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from cpu_step import VOCABULARY, PlainGPT2, step_of
from one_gpu import on_one_gpu
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from steptime.ratios import CONFIDENCE, paired
from steptime.record.start import finish, start
from steptime.train.options import ModelOptions

Step = Callable[[], object]


def toy() -> Step:
    layers = [nn.Linear(1024, 1024, bias=False) for _ in range(18)]
    model = DistributedDataParallel(nn.Sequential(*layers).cuda(), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(65536, 1024, device="cuda")

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def large(wrap: Callable[[nn.Module], nn.Module]) -> Step:
    torch.manual_seed(0)
    config = ModelOptions(model="124M", tokens=1024).config(VOCABULARY)
    with torch.device("cuda"):
        model = PlainGPT2(config)
        x, y = (torch.randint(VOCABULARY, (16, 1024)) for _ in range(2))
    wrapped = wrap(model)
    return step_of(wrapped, wrapped, x, y, bf16=True, fused=True)


def sharded(model: nn.Module) -> nn.Module:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def block(work: Step, times: int, folder: Path | None) -> float:
    """Seconds of one of so many; ``folder``: recorded into that."""
    if folder:
        start(folder)
    work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    took = time.perf_counter() - begin
    if folder:
        finish()
    return took / times


def measured(name: str, work: Step, pairs: int, seconds: float, folder: Path) -> None:
    for _ in range(15):  # DDP waits for the GPU in its first ten
        work()
    times = max(3, min(2000, round(seconds / block(work, 3, None))))
    block(work, 3, folder)
    found, memory = [], []
    for pair in range(pairs):
        taken = {}
        for one in (folder, None) if pair % 2 else (None, folder):
            torch.cuda.reset_peak_memory_stats()
            taken[one] = block(work, times, one)
            memory.append(torch.cuda.max_memory_allocated() / 1e9)
        found.append((taken[None], taken[folder]))
    bare, with_it = np.array(found).T
    ratio, more = paired(np.log(bare), np.log(with_it)), paired(bare, with_it)
    low, high = np.exp(ratio.interval(CONFIDENCE))
    margin = more.interval(CONFIDENCE)[1] - more.center
    print(
        f"{name:<12}{1e3 * np.median(bare):9.3f} ms "
        f"{1e6 * more.center:+8.1f} ± {1e6 * margin:.1f} µs"
        f"  × {np.exp(ratio.center):.4f} ({low:.4f}–{high:.4f})"
        f"  {min(memory):.2f}–{max(memory):.2f} GB",
        flush=True,
    )


def compare(asked: argparse.Namespace, device: torch.device) -> None:
    """Measure each kind of work with a recording and without."""
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}")
    one = torch.zeros(1, device=device)
    with tempfile.TemporaryDirectory() as folder:
        for name, made in {
            "a call": lambda: lambda: dist.all_reduce(one),
            "DDP": toy,
            "DDP 124M": lambda: large(DistributedDataParallel),
            "FSDP2 124M": lambda: large(sharded),
        }.items():
            measured(name, made(), asked.pairs, asked.seconds, Path(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    on_one_gpu(partial(compare, parser.parse_args()))
