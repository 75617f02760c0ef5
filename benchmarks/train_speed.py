"""Training steps of GPT-2 124M on this machine's cores: steptime beside plain PyTorch on gloo.

    python benchmarks/train_speed.py [--ranks 2] [--pairs 9] [--batch 1] [--context 64]
        [--precision fp32]

The plain step is DistributedDataParallel over gloo around the model that a careful user writes
(``cpu_step.py``), with fused AdamW and a clipped norm. Beside it, one after the other, train the
strategies ``shared`` and ``overlapped_sharded`` on the backend ``steptime``, as ``steptime train``
runs them; and FSDP2, each block and the model ``fully_shard``, on ``steptime`` beside gloo. Each
pair of steps is taken in the same processes, in an order that alternates, and a step is as long as
on the slowest rank.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from as_rank import as_rank
from numpy.typing import NDArray

from steptime.launch import run_ranks
from steptime.world import detect

WARMUP = 2
STRATEGIES = ("shared", "overlapped_sharded")

Step = Callable[[], object]


def rank(asked: argparse.Namespace) -> None:
    from steptime.world.freed_memory import keep_freed_memory

    keep_freed_memory()
    as_rank(lambda: compare(asked), timeout_s=300, backend="steptime")


def compare(asked: argparse.Namespace) -> None:
    import torch.distributed as dist
    from side_by_side import machine, ratio

    gloo = dist.new_group(backend="gloo")
    first = dist.get_rank() == 0
    if first:
        print(machine())
        print(
            f"GPT-2 124M, {asked.precision}, {dist.get_world_size()} ranks of 1 thread, batch "
            f"{asked.batch} a rank, context {asked.context}, {asked.pairs} pairs of steps\n"
        )
        print(
            f"{'beside':<14}{'ms a step':>9}   {'on steptime':<20}{'ms a step':>9}   times as fast"
        )
    plain = "DDP, gloo"
    for strategy in STRATEGIES:
        steps = {plain: ddp_step(asked, gloo), strategy: own_step(asked, strategy)}
        show(first, *taken(steps, asked.pairs), ratio)
        del steps
        gc.collect()
    steps = {"FSDP2, gloo": fsdp_step(asked, "gloo"), "FSDP2": fsdp_step(asked, "steptime")}
    show(first, *taken(steps, asked.pairs), ratio)


def taken(steps: Mapping[str, Step], pairs: int) -> tuple[list[str], list[NDArray[np.float64]]]:
    """The names of two steps and the seconds of each of their pairs, on the slowest rank."""
    import torch
    import torch.distributed as dist

    seconds = torch.empty(WARMUP + pairs, 2, dtype=torch.float64)
    for pair in range(WARMUP + pairs):
        order = list(enumerate(steps.values()))
        for number, step in order[:: 1 if pair % 2 else -1]:
            dist.barrier()
            start = perf_counter()
            step()
            seconds[pair, number] = perf_counter() - start
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return list(steps), list(seconds[WARMUP:].T.numpy())


def show(first: bool, names: list[str], seconds: list[NDArray[np.float64]], ratio: Any) -> None:
    if first:
        plain, own = (f"{1e3 * np.median(one):>9.0f}" for one in seconds)
        print(f"{names[0]:<14}{plain}   {names[1]:<20}{own}   {ratio(*seconds)}", flush=True)


def plain_model(asked: argparse.Namespace) -> Any:
    """The model of ``cpu_step.py``, the same on all ranks."""
    import torch
    from cpu_step import PlainGPT2

    torch.manual_seed(0)
    return PlainGPT2(config_of(asked))


def config_of(asked: argparse.Namespace) -> Any:
    from cpu_step import VOCABULARY

    from steptime.train.options import ModelOptions

    return ModelOptions(model="124M", tokens=asked.context).config(VOCABULARY)


def ddp_step(asked: argparse.Namespace, group: Any) -> Step:
    from torch.nn.parallel import DistributedDataParallel

    return plain_step(asked, DistributedDataParallel(plain_model(asked), process_group=group))


def fsdp_step(asked: argparse.Namespace, backend: str) -> Step:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(
        "cpu", (dist.get_world_size(),), backend_override={0: backend}, mesh_dim_names=(backend,)
    )
    model = plain_model(asked)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return plain_step(asked, model)


def plain_step(asked: argparse.Namespace, model: Any) -> Step:
    """A step of any module on one batch, of other rows on each rank."""
    import torch
    from cpu_step import step_of

    x, y = (torch.from_numpy(rows) for rows in batches_of(asked).at(0))
    return step_of(model, model, x, y, bf16=asked.precision == "bf16", fused=True)


def own_step(asked: argparse.Namespace, strategy: str) -> Step:
    """A step as ``steptime train`` takes it on the default group."""
    from cpu_step import steptime_step

    bf16 = asked.precision == "bf16"
    return steptime_step(config_of(asked), batches_of(asked), bf16=bf16, strategy=strategy)


def batches_of(asked: argparse.Namespace) -> Any:
    """This rank's rows of random tokens."""
    import torch.distributed as dist
    from cpu_step import random_tokens

    from steptime.train.data import Batches

    rank, ranks = dist.get_rank(), dist.get_world_size()
    return Batches(random_tokens(), asked.context, asked.batch * ranks, rank, ranks, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    asked = parser.parse_args()
    if detect(os.environ) is not None:
        rank(asked)
        return 0
    return run_ranks(sys.argv, asked.ranks, threads=1)


if __name__ == "__main__":
    sys.exit(main())
