"""A training step of GPT-3 175B on 16,384 GPUs, and prices of collectives against messages.

    python benchmarks/simulate_gpt3.py

First, in a fresh process: two steps on tensor 8 × data 128 × pipeline 16 of the cluster
h100-16384, every rank of them, at fidelity ``collective``. Starting Python, importing and
everything else counts. The bars: 10 s and 2 GB.

Then smaller models on 64, 128 and 256 of the same GPUs at both fidelities, and by how much their
steps differ; bar: 3 %. What differs are ops that share links while they run, as the last
activations of a pipeline and the first gradients do: only ``message`` lets them slow each other.
These are on a cluster that names no library, whose collectives are messages at both fidelities.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace

BAR_S, BAR_BYTES, BAR_DIFFERENCE = 10.0, 2e9, 0.03
LARGE = ("gpt3-175B", 8, 128, 16, 12)
SMALL = (
    # model, tensor, data, pipeline, micro-batches
    ("gpt2-355M", 8, 8, 1, 2),
    ("gpt3-6.7B", 8, 4, 2, 4),
    ("gpt3-6.7B", 8, 16, 1, 2),
    ("gpt3-6.7B", 8, 4, 4, 8),
    ("gpt3-6.7B", 8, 32, 1, 2),
    ("gpt3-6.7B", 8, 8, 4, 8),
    ("gpt3-6.7B", 4, 16, 4, 8),
)


def step(
    name: str, tensor: int, data: int, pipeline: int, micro_batches: int, fidelity: str
) -> dict[str, float]:
    from steptime.cluster import cluster_named
    from steptime.simulate.step import simulate
    from steptime.workloads.hybrid import hybrid
    from steptime.workloads.models import model_named

    model = model_named(name)
    sizes = {"tensor": tensor, "data": data, "pipeline": pipeline}
    program = hybrid(model, **sizes, micro_batches=micro_batches)
    cluster = cluster_named("h100-16384")
    if name != LARGE[0]:  # else collective has the times of NCCL's calls, and message never has
        cluster = replace(cluster, nccl=None)
    found = simulate(program, cluster, fidelity=fidelity)
    return {
        "step_s": float(found.step_s[-1]),
        "compute_s": float(found.ranks["compute_s"].mean()),
        "messages": found.messages,
        "wall_s": found.wall_s,
        "peak_bytes": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def large(runs: int) -> None:
    from side_by_side import machine

    print(machine())
    print("{}, tensor {} × data {} × pipeline {}, {} micro-batches: 16,384 ranks".format(*LARGE))
    for run in range(runs + 1):
        began = time.perf_counter()
        child = [sys.executable, __file__, "--one"]
        answer = subprocess.run(child, check=True, capture_output=True, text=True).stdout
        wall = time.perf_counter() - began
        if run == 0:
            continue  # it may have compiled
        found = json.loads(answer)
        print(
            f"step {found['step_s']:.3f} s (simulated), of which {found['compute_s']:.3f} s compute"
            f"; {found['messages'] / 1e6:.1f} million messages a step"
        )
        print(f"  wall time, all included  {wall:6.2f} s   bar {BAR_S:.0f} s")
        print(f"  peak memory              {found['peak_bytes'] / 1e9:6.2f} GB  bar 2 GB")
        print("  holds" if wall <= BAR_S and found["peak_bytes"] <= BAR_BYTES else "  FAILS")


def both() -> None:
    print("\nfidelity collective against message, h100-16384, step in ms (simulated)")
    print(
        f"{'model':<12}{'ranks':>6}  {'t × d × p':<12}{'message':>9}{'collective':>12}  difference"
    )
    for name, tensor, data, pipeline, micro_batches in SMALL:
        found = {
            fidelity: step(name, tensor, data, pipeline, micro_batches, fidelity)
            for fidelity in ("message", "collective")
        }
        message, collective = (found[f]["step_s"] for f in ("message", "collective"))
        differ = collective / message - 1
        shape = f"{tensor} × {data} × {pipeline}"
        print(
            f"{name:<12}{tensor * data * pipeline:>6}  {shape:<12}{1e3 * message:>9.3f}"
            f"{1e3 * collective:>12.3f}  {100 * differ:+.2f} %"
            f"{'' if abs(differ) <= BAR_DIFFERENCE else '  FAILS'}"
            f"   ({found['message']['wall_s']:.1f} s, {found['collective']['wall_s']:.1f} s wall)"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=3, help="timed runs of the large step")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(step(*LARGE, "collective")))
        return
    large(chosen.runs)
    both()


if __name__ == "__main__":
    main()
