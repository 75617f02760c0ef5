"""A thousand variations of one training step, one after the other in this process.

    python benchmarks/simulate_sweep.py [--count 1000]

GPT-3 13B on tensor 8 × data 2 × pipeline 4 ranks with 8 micro-batches, at fidelity ``collective``,
with other bandwidths and latencies of links and another speed of devices, which ``st.what_ifs``
asks about. Timed by this process's own processor time, the preparing of the step among it, three
times: the median of a variation, with the least and the most. ``st.simulate`` of the first 20 by
themselves must take the same steps. Where each device has a speed of its own all ranks differ, and
each is simulated: so a hundred more are, with such devices, of which only the seconds are asked.
"""

import argparse
import time
from dataclasses import replace
from statistics import median

import numpy as np
from side_by_side import machine

import steptime as st
from steptime.simulate.prepare import prepare, prepare_again
from steptime.simulate.step import step_seconds
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import model_named

BAR_MS = 5.0
MODEL, CLUSTER, FIDELITY = "gpt3-13B", "dgx-h100-pod", "collective"
AXES = {"tensor": 8, "data": 2, "pipeline": 4, "micro_batches": 8}
_DIFFERENT, _WHOLE = 100, 20


def changes(count: int) -> list[str]:
    """Other figures of the cluster, drawn from a seed."""
    draw = np.random.default_rng(0)
    return [
        f"bandwidth={draw.uniform(0.25, 4):.4f}x,latency={draw.uniform(0.25, 4):.4f}x,"
        f"compute={draw.uniform(0.5, 2):.4f}x"
        for _ in range(count)
    ]


def differing_ms(count: int) -> float:
    """Milliseconds of a variation in which each device has a speed of its own."""
    cluster, draw = st.cluster(CLUSTER), np.random.default_rng(1)
    prepared = prepare(hybrid(model_named(MODEL), **AXES), cluster, fidelity=FIDELITY)
    began = time.process_time()
    for _ in range(count):
        speed = cluster.speed * draw.uniform(0.5, 2.0, cluster.devices)
        step_seconds(prepare_again(prepared, replace(cluster, speed=speed)))
    return 1e3 * (time.process_time() - began) / count


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=1000, help="variations")
    several = changes(options.parse_args().count)
    st.what_ifs(MODEL, CLUSTER, several[:1], fidelity=FIDELITY, **AXES)  # loads what was compiled
    print(machine())
    each_ms = []
    for _ in range(3):
        began = time.process_time()
        table = st.what_ifs(MODEL, CLUSTER, several, fidelity=FIDELITY, **AXES)
        each_ms.append(1e3 * (time.process_time() - began) / len(several))
    found = [row["step_s"] for row in table.rows[1:]]
    began = time.process_time()
    runs = [
        st.simulate(MODEL, CLUSTER, fidelity=FIDELITY, what_if=text, **AXES)
        for text in several[:_WHOLE]
    ]
    whole_ms = 1e3 * (time.process_time() - began) / len(runs)
    whole = [
        one.step_time_s.median for run in runs for one in run.record.what_if.strategies.values()
    ]
    differ = max(abs(a / b - 1) for a, b in zip(found, whole, strict=False))
    print(f"{len(several):,} steps of {min(found):.3f} to {max(found):.3f} s (simulated)")
    print(
        f"  a variation          {median(each_ms):6.2f} ms ({min(each_ms):.2f} to "
        f"{max(each_ms):.2f})   bar {BAR_MS:g} ms   "
        f"{'holds' if median(each_ms) <= BAR_MS else 'FAILS'}"
    )
    print(f"  where devices differ {differing_ms(_DIFFERENT):6.2f} ms")
    print(f"  each by st.simulate  {whole_ms:6.2f} ms, of the first {len(whole)}")
    print(f"  the two differ by    {differ:.1e} at most")


if __name__ == "__main__":
    main()
