"""Training steps of GPT-3 and Llama 3.1 on up to a million GPUs, every rank of them.

    python benchmarks/simulate_large.py            each three times
    python benchmarks/simulate_large.py --runs 1 --only 16384

Each run is a fresh process that starts Python, imports, makes the program and the cluster, and
simulates two steps at fidelity ``collective``.
What is shown is the median of the runs, with the least and the most: the time on the clock, that of
the processor, and the most memory that the process ever held.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A step: its model, rows of ``tokens`` (0: the model's), ranks along each axis; its bars."""

    model: str
    tokens: int
    tensor: int
    pipeline: int
    data: int
    micro_batches: int
    bar_s: float
    bar_gb: float

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.tensor * self.pipeline * self.data


ROWS = (
    Row("gpt3-175B", 0, 8, 16, 128, 96, 3, 0.5),
    Row("llama3.1-405B", 8192, 8, 16, 1024, 16, 10, 2),
    Row("llama3.1-405B", 8192, 8, 16, 8192, 16, 90, 8),
)


def one(row: Row) -> dict[str, float]:
    """What a simulation of ``row`` found, and took of this process."""
    from steptime.cluster import cluster_named
    from steptime.simulate.step import simulate
    from steptime.workloads.hybrid import hybrid
    from steptime.workloads.models import model_named

    program = hybrid(
        model_named(row.model),
        tensor=row.tensor,
        pipeline=row.pipeline,
        data=row.data,
        micro_batches=row.micro_batches,
        tokens=row.tokens or None,
    )
    cluster = cluster_named(f"h100-16384:hosts={row.ranks // 8}")
    found = simulate(program, cluster, fidelity="collective")
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "step_s": float(found.step_s[-1]),
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_gb": 1024 * used.ru_maxrss / 1e9,
    }


def timed(number: int) -> dict[str, float]:
    """One run in a fresh process."""
    began = time.perf_counter()
    child = [sys.executable, __file__, "--one", str(number)]
    answer = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(answer)
    return {**found, "wall_s": time.perf_counter() - began}


def spread(values: list[float]) -> str:
    """The median, with the least and the most."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=3, help="timed runs of each step")
    options.add_argument("--only", type=int, help="only the steps of so many ranks")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one is not None:
        print(json.dumps(one(ROWS[chosen.one])))
        return
    from side_by_side import machine

    print(machine())
    for number, row in enumerate(ROWS):
        if chosen.only not in (None, row.ranks):
            continue
        runs = [timed(number) for _ in range(chosen.runs + 1)][1:]  # the first may have compiled
        wall, cpu, peak = ([run[key] for run in runs] for key in ("wall_s", "cpu_s", "peak_gb"))
        print(
            f"{row.model}, tensor {row.tensor} × data {row.data:,} × pipeline {row.pipeline}, "
            f"{row.micro_batches} micro-batches: {row.ranks:,} ranks\n"
            f"  step {runs[0]['step_s']:.3f} s (simulated)\n"
            f"  wall time, all included  {spread(wall)} s   bar {row.bar_s:g} s\n"
            f"  processor time           {spread(cpu)} s\n"
            f"  peak memory              {spread(peak)} GB  bar {row.bar_gb:g} GB\n"
            f"  {'holds' if median(wall) <= row.bar_s and max(peak) <= row.bar_gb else 'FAILS'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
