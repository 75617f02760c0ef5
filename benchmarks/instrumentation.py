"""What steptime's timers cost: the same training with and without them, step about.

    python benchmarks/instrumentation.py [--ranks 2] [--pairs 100] [--strategy overlapped_sharded]

One training goes on while its recorder is taken away and given back: blocks of three steps
alternate, with a barrier around each, and the figure is the median over the pairs of the ratio of
their times on rank 0.
"""

import argparse
import os
import statistics
import sys
import time

from as_rank import as_rank

from steptime.launch import run_ranks
from steptime.world import detect

BLOCK = 3


def rank(pairs: int, strategy: str) -> None:
    import torch
    import torch.distributed as dist

    from steptime.strategies import strategy_named
    from steptime.train.job import Job, no_collection, start_training
    from steptime.train.loop import training_steps
    from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
    from steptime.train.tokens import load_tokens

    def work() -> None:
        options = JobOptions(
            model=ModelOptions(),
            data=DataOptions(),
            train=TrainOptions(),
            precision="fp32",
            compiled=False,
            steps=10**6,
            warmup=0,
            seed=0,
        )
        tokens = load_tokens(options.data)
        config = options.model.config(tokens.vocabulary)
        job = Job(options, config, config.context, tokens, torch.device("cpu"))
        training = start_training(job, strategy_named(strategy))
        steps = training_steps(training, 0)
        recorder = training.comm.recorder

        def block(timed: bool) -> float:
            training.sync.settle()
            training.comm.recorder = recorder if timed else None
            dist.barrier()
            start = time.perf_counter()
            for _ in range(BLOCK):
                next(steps)
            dist.barrier()
            return time.perf_counter() - start

        with no_collection():
            for timed in (True, False):
                block(timed)
            times = []
            for pair in range(pairs):
                first = pair % 2 == 0
                taken = {first: block(first), not first: block(not first)}
                times.append((taken[True], taken[False]))
        if dist.get_rank() == 0:
            ratios = sorted(timed / bare for timed, bare in times)
            low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
            step = statistics.median(bare for _, bare in times) / BLOCK
            print(
                f"{strategy} on {dist.get_world_size()} ranks: {1e3 * step:.1f} ms a step, with "
                f"timers × {statistics.median(ratios):.4f} (quartiles {low:.3f}–{high:.3f}, "
                f"{pairs} pairs)"
            )

    as_rank(work)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--strategy", default="overlapped_sharded")
    options = parser.parse_args()
    if detect(os.environ) is None:
        return run_ranks(sys.argv, options.ranks, threads=1)
    rank(options.pairs, options.strategy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
