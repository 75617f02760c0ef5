"""DDP training of GPT-2 124M: gloo beside the backend steptime, step about, in the same processes.

    python benchmarks/ddp.py [--ranks 2] [--pairs 15] [--context 64] [--model 124M]

Two copies of one model, each in a plain DistributedDataParallel with an AdamW of its own, one over
gloo and one over steptime, take the same steps on one batch of random tokens a rank, in an order
that alternates. A step is as long as on the slowest rank. Two ranks have one order of adding, so
losses and weights must then agree bit for bit; with more, losses within 1e-6. A third copy says how
fast any backend could be: its gradients go nowhere, by a communication hook that returns them.
"""

import argparse
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from as_rank import as_rank
from numpy.typing import NDArray

from steptime.launch import run_ranks
from steptime.world import detect

BATCH, VOCABULARY = 1, 50257
WARMUP = 2


def rank(pairs: int, context: int, size: str) -> None:
    import torch
    import torch.distributed as dist
    from side_by_side import machine

    from steptime.backend import NAME
    from steptime.train.options import ModelOptions
    from steptime.train.training import new_model

    def work() -> None:
        config = ModelOptions(model=size, tokens=context).config(VOCABULARY)
        groups = {"gloo": dist.group.WORLD, "steptime": dist.new_group(backend=NAME)}
        groups["nothing"] = groups["steptime"]
        models = {name: new_model(config, 0, torch.device("cpu")) for name in groups}
        steps = {
            name: make_step(models[name], group, alone=name == "nothing")
            for name, group in groups.items()
        }
        times, losses = ({name: [] for name in groups} for _ in range(2))
        data = torch.Generator().manual_seed(dist.get_rank())
        tokens = torch.randint(VOCABULARY, (BATCH, context + 1), generator=data)
        for pair in range(WARMUP + pairs):
            for name in list(groups)[:: 1 if pair % 2 else -1]:
                dist.barrier(groups["steptime"])
                start = perf_counter()
                losses[name].append(steps[name](tokens))
                times[name].append(perf_counter() - start)
        both = (models[name].parameters() for name in ("gloo", "steptime"))
        same = all(map(torch.equal, *both))
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (list(times.values()), list(losses.values()), same))
        if dist.get_rank() == 0:
            parameters = sum(p.numel() for p in models["gloo"].parameters())
            print(machine())
            print(
                f"GPT-2 of {parameters:,} parameters, fp32, {dist.get_world_size()} ranks of "
                f"1 thread, batch {BATCH} a rank, context {context}, {pairs} pairs of steps"
            )
            every_times, every_losses, every_same = zip(*everyone, strict=True)
            report(np.array(every_times), np.array(every_losses), all(every_same))

    as_rank(work, timeout_s=120)


def make_step(model: Any, group: Any, *, alone: bool) -> Callable[[Any], float]:
    """A step of training of ``model``, on tokens of shape (B, T + 1); its result is the loss."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def at_once(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped = DistributedDataParallel(model, process_group=group)
    if alone:
        wrapped.register_comm_hook(None, at_once)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=6e-4, fused=True)

    def step(tokens: Any) -> float:
        loss = wrapped(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def report(times: NDArray[np.float64], losses: NDArray[np.float64], same: bool) -> None:
    """Print what was found; both arrays have shape (ranks, 3, steps), gloo first."""
    from side_by_side import ratio

    gloo, ours, nothing = times[..., WARMUP:].max(axis=0)
    means = losses.mean(0)
    for name, seconds, loss in zip(("gloo", "steptime"), (gloo, ours), means[:2], strict=True):
        step = f"{1e3 * np.median(seconds):8.1f} ms a step"
        print(f"{name:<8} {step}, loss {loss[0]:.6f} → {loss[-1]:.6f}")
    print(f"nothing  {1e3 * np.median(nothing):8.1f} ms a step: gradients that go nowhere")
    print(f"gloo / steptime: {ratio(gloo, ours)}; gloo / nothing: {ratio(gloo, nothing)}")
    theirs, mine = losses[:, 0], losses[:, 1]
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
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(options.pairs, options.context, options.model)
        return 0
    return run_ranks(sys.argv, options.ranks, threads=1)


if __name__ == "__main__":
    sys.exit(main())
