"""What steptime record costs: the same calls and steps with it and without, block about.

    python benchmarks/recording.py [--pairs 60] [--large 0] [--only "a call,DDP"] [--observed]

Two ranks on gloo. ``a call``: an all_reduce of 4 bytes, one after the other; ``least``: the same
with a kernel in Python that only passes the call on. ``on steptime``: in a group of that backend.
The steps: DDP and FSDP2 of the same layers, 7 and 20 calls; with ``--large`` so many pairs of steps
of GPT-2 124M. With ``--observed`` the observers of steptime check look on, too. The recording
starts and ends between blocks, which alternate, with a barrier around each. A block begins with
work that does not count, since what is seen for the first time (groups, shapes, places in the code)
is written down once a job. The figures are those of rank 0: what is added in the mean of the pairs,
by the clock and in processor time of the thread that calls, and the mean ratio by the clock, each
with its 95 % interval.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import train_speed
from as_rank import as_rank

from steptime.arrays import Floats
from steptime.launch import run_ranks
from steptime.ratios import CONFIDENCE, paired
from steptime.world import detect

CALLS, STEPS = 2000, 3
OBSERVED_FIRST = 30
"""Parameters are hashed after each of the first ten steps, and then ever more seldom."""

FOLDER = "STEPTIME_BENCHMARK_FOLDER"


def rank(pairs: int, large: int, only: Sequence[str], observed: bool) -> None:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from steptime.record.start import OBSERVERS_VARIABLE, finish, start
    from steptime.world import compat

    def record_all() -> Callable[[], None]:
        if observed:
            os.environ[OBSERVERS_VARIABLE] = "steptime.check.observe"
        start(Path(os.environ[FOLDER]))
        return finish

    def pass_on() -> Callable[[], None]:
        onwards = compat.redispatch("c10d", "allreduce_")
        library = torch.library.Library("c10d", "IMPL")

        def kernel(keyset: Any, *arguments: Any) -> Any:
            return onwards(keyset & compat.BELOW, *arguments)

        library.impl("allreduce_", kernel, "BackendSelect", with_keyset=True)
        return library._destroy

    def block(
        work: Callable[[], object],
        times: int,
        begin_seeing: Callable[[], Callable[[], None]] | None,
    ) -> tuple[float, float]:
        """The seconds and the processor's seconds of one time."""
        end_seeing = begin_seeing() if begin_seeing else None
        for _ in range(OBSERVED_FIRST if observed else 1):
            work()
        dist.barrier()
        begin, busy = time.perf_counter(), time.thread_time()
        for _ in range(times):
            work()
        dist.barrier()
        took, used = time.perf_counter() - begin, time.thread_time() - busy
        if end_seeing:
            end_seeing()
        return took / times, used / times

    def measured(
        name: str,
        work: Callable[[], object],
        times: int,
        pairs: int = pairs,
        seeing: Callable[[], Callable[[], None]] = record_all,
    ) -> None:
        if only and name not in only:
            return
        for one in (seeing, None):
            block(work, times, one)
        found = []
        for pair in range(pairs):
            order = (seeing, None) if pair % 2 else (None, seeing)
            taken = {one: block(work, times, one) for one in order}
            found.append((taken[None], taken[seeing]))
        if dist.get_rank() == 0:
            (bare, with_it), used = np.transpose(found, (2, 1, 0))
            ratio = paired(np.log(bare), np.log(with_it))
            low, high = np.exp(ratio.interval(CONFIDENCE))
            print(
                f"{name:11} {1e3 * np.median(bare):9.3f} ms  {_added(bare, with_it)} µs  "
                f"{_added(*used)} µs of processor  × {np.exp(ratio.center):.4f} "
                f"({low:.4f}–{high:.4f})",
                flush=True,
            )

    def step_of(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(768, 768), nn.GELU()) for _ in range(6)]
        model = wrap(nn.Sequential(*layers))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        batch = torch.randn(512, 768)

        def step() -> None:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def sharded(model: nn.Module) -> nn.Module:
        for layer in model.children():
            fully_shard(layer)
        fully_shard(model)
        return model

    def work() -> None:
        torch.set_num_threads(1)
        one = torch.zeros(1)
        measured("a call", lambda: dist.all_reduce(one) and None, CALLS)
        measured("least", lambda: dist.all_reduce(one) and None, CALLS, seeing=pass_on)
        own = dist.new_group(backend="steptime")
        measured("on steptime", lambda: dist.all_reduce(one, group=own) and None, CALLS)
        ddp = step_of(lambda model: DistributedDataParallel(model, bucket_cap_mb=2))
        measured("DDP", ddp, STEPS)
        measured("DDP, least", ddp, STEPS, seeing=pass_on)
        measured("FSDP2", step_of(sharded), STEPS)
        if large:
            asked = argparse.Namespace(context=64, batch=1, precision="fp32")
            measured("DDP 124M", train_speed.ddp_step(asked, None), 1, large)
            measured("FSDP2 124M", train_speed.fsdp_step(asked, "gloo"), 1, large)

    as_rank(work)


def _added(bare: Floats, with_it: Floats) -> str:
    more = paired(bare, with_it)
    return f"{1e6 * more.center:+7.1f} ± {1e6 * (more.interval(CONFIDENCE)[1] - more.center):.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--observed", action="store_true")
    given = parser.parse_args()
    if detect(os.environ):
        only = [one for one in given.only.split(",") if one]
        rank(given.pairs, given.large, only, given.observed)
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run_ranks(sys.argv, 2, 1, {**os.environ, FOLDER: folder}))
