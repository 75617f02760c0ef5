"""The first simulation in a process, by fidelity: how long it takes, imports and all.

    python benchmarks/simulate_first.py

Each run is a fresh process: GPT-2 124M on the 8 GPUs of dgx-h100, once more in the same process for
what a later one takes. Shown is the processor time, the median of the runs with the least and the
most. Nothing is compiled in it: what is in C was, when steptime was installed.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any, get_args

BAR_S = 5.0


def one(fidelity: Any) -> dict[str, float]:
    """What the first and the second simulation in this process took."""
    from steptime.cluster import cluster_named
    from steptime.simulate.step import simulate
    from steptime.workloads.hybrid import hybrid
    from steptime.workloads.models import model_named

    program = hybrid(model_named("gpt2-124M"), data=8, micro_batches=2)
    cluster = cluster_named("dgx-h100")
    simulate(program, cluster, fidelity=fidelity)
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = time.process_time()
    simulate(program, cluster, fidelity=fidelity)
    return {
        "first_s": used.ru_utime + used.ru_stime,
        "later_s": time.process_time() - began,
    }


def fresh(fidelity: str) -> dict[str, float]:
    """One run in a fresh process."""
    command = [sys.executable, __file__, "--one", fidelity]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def main() -> None:
    from steptime.simulate.simulation import Fidelity

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=3, help="fresh processes for each fidelity")
    options.add_argument("--one", choices=get_args(Fidelity), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(one(chosen.one)))
        return
    from side_by_side import machine

    print(machine())
    for fidelity in get_args(Fidelity):
        runs = [fresh(fidelity) for _ in range(chosen.runs)]
        first = [run["first_s"] for run in runs]
        print(
            f"fidelity {fidelity}: {median(first):.2f} s ({min(first):.2f} to {max(first):.2f}) of "
            f"the processor   bar {BAR_S:g} s   {'holds' if median(first) <= BAR_S else 'FAILS'}"
        )
        print(f"  once more in the same process {median(r['later_s'] for r in runs):.3f} s")


if __name__ == "__main__":
    main()
