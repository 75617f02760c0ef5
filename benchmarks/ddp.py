"""DDP training of GPT-2 124M: gloo beside the backend steptime, step about, in the same processes.

    python benchmarks/ddp.py [--ranks 2] [--pairs 15] [--context 64] [--model 124M]

Copies of one model, each with an AdamW of its own, take the same steps on one batch of random
tokens a rank, in an order that alternates: in a plain DistributedDataParallel over gloo, in one
over steptime, and in one over steptime whose buckets are in the arena (``backend.data_parallel``).
A step is as long as on the slowest rank. Two ranks have one order of adding, so losses and weights
must then agree bit for bit; with more, losses within 1e-6.

A last copy says how fast any backend could be. *Bare*: for each bucket a thread runs the loop in C
of ``limits.py`` over as many elements of pages that all ranks have mapped, which checks nothing and
waits actively. *Nothing*: gradients go nowhere.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
from as_rank import as_rank
from limits import Fused, compiled
from numpy.typing import NDArray

from steptime.launch import run_ranks
from steptime.world import detect

BATCH, VOCABULARY = 1, 50257
WARMUP = 2
GLOO, STEPTIME, ARENA, BARE, NOTHING = "gloo", "steptime", "in the arena", "bare", "nothing"
COLUMNS = (GLOO, STEPTIME, ARENA, BARE, NOTHING)
WHAT = {BARE: "a loop in C on other pages", NOTHING: "gradients that go nowhere"}


def rank(pairs: int, context: int, size: str, library: str) -> None:
    import torch
    import torch.distributed as dist
    from side_by_side import machine

    from steptime.backend import NAME, data_parallel
    from steptime.train.options import ModelOptions
    from steptime.train.training import new_model

    def work() -> None:
        ours = dist.new_group(backend=NAME)
        config = ModelOptions(model=size, tokens=context).config(VOCABULARY)
        made = torch.nn.parallel.DistributedDataParallel
        kept = {
            GLOO: made(new_model(config, 0, torch.device("cpu"))),
            STEPTIME: made(new_model(config, 0, torch.device("cpu")), process_group=ours),
            ARENA: data_parallel(new_model(config, 0, torch.device("cpu")), process_group=ours),
        }
        limit = made(new_model(config, 0, torch.device("cpu")), process_group=ours)
        parameters = sum(p.numel() for p in limit.parameters())
        bare = hook_of(Fused(library, 4 * parameters))
        limit.register_comm_hook(None, lambda _, bucket: bare(bucket, name == BARE))
        step_of_limit = make_step(limit)
        steps = {name: make_step(model) for name, model in kept.items()}
        steps |= {BARE: step_of_limit, NOTHING: step_of_limit}
        times, losses = ({name: [] for name in steps} for _ in range(2))
        data = torch.Generator().manual_seed(dist.get_rank())
        tokens = torch.randint(VOCABULARY, (BATCH, context + 1), generator=data)
        for pair in range(WARMUP + pairs):
            for name in list(steps)[:: 1 if pair % 2 else -1]:
                dist.barrier(ours)
                start = perf_counter()
                losses[name].append(steps[name](tokens))
                times[name].append(perf_counter() - start)
        same = all(map(equal, *(model.parameters() for model in kept.values())))
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (list(times.values()), list(losses.values()), same))
        if dist.get_rank() == 0:
            print(machine())
            print(
                f"GPT-2 of {parameters:,} parameters, fp32, {dist.get_world_size()} ranks of "
                f"1 thread, batch {BATCH} a rank, context {context}, {pairs} pairs of steps"
            )
            every_times, every_losses, every_same = zip(*everyone, strict=True)
            report(np.array(every_times), np.array(every_losses), all(every_same))

    as_rank(work, timeout_s=120)


def equal(first: Any, *others: Any) -> bool:
    """Whether tensors have the same bits."""
    import torch

    return all(torch.equal(first, other) for other in others)


def hook_of(fused: Fused) -> Callable[[Any, bool], Any]:
    """What takes a bucket of DDP and gives the future of it, with or without the loop in C."""
    import torch

    thread = ThreadPoolExecutor(1)

    def hook(bucket: Any, summed: bool) -> Any:
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        buffer = bucket.buffer()

        def run() -> None:
            fused.sum(buffer.numel())
            done.set_result(buffer)

        if summed:
            thread.submit(run)
        else:
            done.set_result(buffer)
        return done

    return hook


def make_step(model: Any) -> Callable[[Any], float]:
    """A step of training of ``model``, on tokens of shape (B, T + 1); its result is the loss."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)

    def step(tokens: Any) -> float:
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def report(times: NDArray[np.float64], losses: NDArray[np.float64], same: bool) -> None:
    """Print what was found; both arrays have shape (ranks, 5, steps), gloo first."""
    from side_by_side import ratio

    seconds = dict(zip(COLUMNS, times[..., WARMUP:].max(axis=0), strict=True))
    means = dict(zip(COLUMNS, losses.mean(0), strict=True))
    for name, took in seconds.items():
        told = WHAT.get(name) or f"loss {means[name][0]:.6f} → {means[name][-1]:.6f}"
        over = "" if name == GLOO else f", gloo / {name}: {ratio(seconds[GLOO], took)}"
        print(f"{name:<12} {1e3 * np.median(took):8.1f} ms a step, {told}{over}")
    theirs, mine = losses[:, :1], losses[:, 1:3]
    apart = np.max(np.abs(theirs - mine) / np.abs(theirs))
    print(
        f"losses of all ranks and steps: {np.count_nonzero(theirs == mine)} of {mine.size} the "
        f"same bits, at most {apart:.1e} apart; weights at the end: "
        f"{'the same bits' if same else 'they differ'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--model", default="124M")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(options.pairs, options.context, options.model, options.library)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        program = [*sys.argv, "--library", str(compiled("fused.c", folder))]
        return run_ranks(program, options.ranks, threads=1)


if __name__ == "__main__":
    sys.exit(main())
