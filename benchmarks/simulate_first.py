"""The first simulation on a machine, by fidelity: how long it takes, and what is compiled in it.

    python benchmarks/simulate_first.py

Each run is a fresh process with an empty folder for numba's code: GPT-2 124M on the 8 GPUs of
dgx-h100, once more in the same process for what a later one takes. Shown are the processor time of
all, the median of the runs with the least and the most, and which functions took it, each with what
is compiled into it, as numba's own events tell.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from statistics import median
from typing import Any, get_args

BAR_S = 5.0


def one(fidelity: Any) -> dict[str, Any]:
    """What the first and the second simulation in this process took."""
    from numba.core import event

    from steptime.cluster import cluster_named
    from steptime.simulate.step import simulate
    from steptime.workloads.hybrid import hybrid
    from steptime.workloads.models import model_named

    compiled: Counter[str] = Counter()

    class Compiling(event.Listener):
        """Adds up what compiling each function took, with all that it calls."""

        def __init__(self) -> None:
            self.begun: list[float] = []

        def on_start(self, _: event.Event) -> None:
            self.begun.append(time.process_time())

        def on_end(self, ended: event.Event) -> None:
            seconds = time.process_time() - self.begun.pop()
            if not self.begun:
                compiled[ended.data["dispatcher"].py_func.__qualname__] += seconds

    program = hybrid(model_named("gpt2-124M"), data=8, micro_batches=2)
    cluster = cluster_named("dgx-h100")
    with event.install_listener("numba:compile", Compiling()):
        simulate(program, cluster, fidelity=fidelity)
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = time.process_time()
    simulate(program, cluster, fidelity=fidelity)
    return {
        "first_s": used.ru_utime + used.ru_stime,
        "later_s": time.process_time() - began,
        "compiled": dict(compiled),
    }


def fresh(fidelity: str) -> dict[str, Any]:
    """One run in a fresh process, with nothing compiled."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [sys.executable, __file__, "--one", fidelity],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
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
        print(f"  of which compiling {median(sum(r['compiled'].values()) for r in runs):.2f} s")
        for name in sorted(runs[0]["compiled"], key=runs[0]["compiled"].get, reverse=True):
            print(f"    {name:<14}{median(r['compiled'][name] for r in runs):6.2f} s")
        print(f"  once more in the same process {median(r['later_s'] for r in runs):.3f} s")


if __name__ == "__main__":
    main()
