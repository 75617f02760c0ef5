"""A training step of GPT-3 message by message, on more and more ranks: messages a second, growth.

    python benchmarks/simulate_messages.py
    python benchmarks/simulate_messages.py --ranks 64 1024 --runs 1

GPT-3 13B, tensor 8 × pipeline 8 × data, 8 micro-batches, on GPUs of h100-16384 where every message
of every collective is a flow (no library's closed forms), one step. Each run is a fresh process,
which has simulated the same on 64 ranks before, so that all is compiled. What is timed is the
simulation of a step that was prepared: processor seconds, the median of the runs with the least and
the most. ``--profile`` tells instead which functions took them.

The bars: 3 million messages a second on 1,024 ranks, and from the fewest to the most ranks a time
that grows by no more than messages ** 1.1.
"""

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from dataclasses import replace
from math import log
from statistics import median

BAR_MESSAGES, BAR_GROWTH = 3e6, 1.1
TENSOR, PIPELINE, MICRO_BATCHES = 8, 8, 8


def one(ranks: int, *, profile: bool) -> dict[str, float]:
    """What a simulation of a step on so many ranks found and took."""
    from steptime.cluster import cluster_named
    from steptime.simulate.prepare import Prepared, prepare
    from steptime.simulate.step import simulate_prepared
    from steptime.workloads.hybrid import hybrid
    from steptime.workloads.models import model_named

    cluster = replace(cluster_named("h100-16384"), nccl=None)

    def prepared(ranks: int) -> Prepared:
        program = hybrid(
            model_named("gpt3-13B"),
            tensor=TENSOR,
            pipeline=PIPELINE,
            data=ranks // (TENSOR * PIPELINE),
            micro_batches=MICRO_BATCHES,
        )
        return prepare(program, cluster, steps=1)

    simulate_prepared(prepared(TENSOR * PIPELINE))
    step = prepared(ranks)
    watch = cProfile.Profile() if profile else None
    began = time.process_time()
    found = watch.runcall(simulate_prepared, step) if watch else simulate_prepared(step)
    taken = time.process_time() - began
    if watch:
        pstats.Stats(watch, stream=sys.stderr).sort_stats("tottime").print_stats(20)
    return {
        "step_s": float(found.step_s[-1]),
        "messages": found.messages,
        "cpu_s": taken,
        "peak_gb": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9,
    }


def fresh(ranks: int) -> dict[str, float]:
    """One run in a process of its own."""
    child = [sys.executable, __file__, "--one", str(ranks)]
    answer = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024, 4096])
    options.add_argument("--runs", type=int, default=3, help="fresh processes for each")
    options.add_argument("--profile", type=int, metavar="RANKS", help="profile one run instead")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one or chosen.profile:
        print(json.dumps(one(chosen.one or chosen.profile, profile=bool(chosen.profile))))
        return
    from side_by_side import machine

    print(machine())
    print(" ranks    messages   simulated  processor s (least to most)  messages/s  peak GB")
    medians = []
    for ranks in chosen.ranks:
        runs = [fresh(ranks) for _ in range(chosen.runs)]
        cpu, messages = [run["cpu_s"] for run in runs], runs[0]["messages"]
        medians.append((messages, median(cpu)))
        spread = f"{median(cpu):.3f} ({min(cpu):.3f} to {max(cpu):.3f})"
        rate, peak = messages / median(cpu), max(run["peak_gb"] for run in runs)
        print(
            f"{ranks:6,}{messages:12,.0f}{runs[0]['step_s']:10.4f} s  {spread:>27}"
            f"{rate:12,.0f}{peak:9.2f}",
            flush=True,
        )
        if ranks == 1024:
            verdict = "holds" if rate >= BAR_MESSAGES else "FAILS"
            print(f"        bar {BAR_MESSAGES:,.0f} messages/s: {verdict}")
    if len(medians) > 1:
        (few, quick), (many, slow) = medians[0], medians[-1]
        growth = log(slow / quick) / log(many / few)
        verdict = "holds" if growth <= BAR_GROWTH else "FAILS"
        print(f"growth: messages ** {growth:.2f}, bar {BAR_GROWTH}: {verdict}")


if __name__ == "__main__":
    main()
