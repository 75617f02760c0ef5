"""A thousand variations of one training step, one after the other in this process.

    python benchmarks/simulate_sweep.py

GPT-3 13B on tensor 8 × data 2 × pipeline 4 ranks with 8 micro-batches, at fidelity ``collective``,
on clusters with other bandwidths and latencies of links and other speeds of devices: each is a step
of its own, of which only its seconds are asked for. Timed by this process's own processor time, in
blocks of a hundred: the median of a variation, with the least and the most. Where each device has a
speed of its own all ranks differ, and each is simulated: so a hundred more are, with such devices.
"""

import argparse
import time
from dataclasses import replace
from statistics import median

import numpy as np
from side_by_side import machine

from steptime.cluster import Cluster, cluster_named
from steptime.simulate.prepare import Prepared, prepare, prepare_again
from steptime.simulate.step import simulate, step_seconds
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import model_named

BAR_MS = 5.0
_BLOCK = 100


def variations(cluster: Cluster, count: int, *, each: bool) -> list[Cluster]:
    """Clusters with other figures, drawn from a seed; ``each``: those of each device."""
    draw = np.random.default_rng(0)
    links, found = cluster.links, []
    for _ in range(count):
        faster, later = draw.uniform(0.25, 4.0, 2)
        speed = cluster.speed * draw.uniform(0.5, 2.0, cluster.devices if each else 1)
        changed = replace(links, bandwidth=links.bandwidth * faster, latency=links.latency * later)
        found.append(replace(cluster, links=changed, speed=speed))
    return found


def timed(prepared: Prepared, several: list[Cluster]) -> tuple[list[float], list[float]]:
    """The seconds of each step, and of each block the milliseconds that a variation took."""
    found, each_ms = [], []
    for first in range(0, len(several), _BLOCK):
        some = several[first : first + _BLOCK]
        began = time.process_time()
        found += [float(step_seconds(prepare_again(prepared, one))[-1]) for one in some]
        each_ms.append(1e3 * (time.process_time() - began) / len(some))
    return found, each_ms


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=1000, help="variations")
    count = options.parse_args().count
    cluster = cluster_named("dgx-h100-pod")
    program = hybrid(model_named("gpt3-13B"), tensor=8, data=2, pipeline=4, micro_batches=8)
    prepared = prepare(program, cluster, fidelity="collective")
    step_seconds(prepared)  # compiles, or loads what was compiled
    print(machine())
    several = variations(cluster, count, each=False)
    found, each_ms = timed(prepared, several)
    _, differ_ms = timed(prepared, variations(cluster, _BLOCK, each=True))
    began = time.process_time()
    whole = [
        float(simulate(program, one, fidelity="collective").step_s[-1]) for one in several[:20]
    ]
    whole_ms = 1e3 * (time.process_time() - began) / len(whole)
    differ = max(abs(a / b - 1) for a, b in zip(found, whole, strict=False))
    print(f"{count:,} steps of {min(found):.3f} to {max(found):.3f} s (simulated)")
    print(
        f"  a variation          {median(each_ms):6.2f} ms ({min(each_ms):.2f} to "
        f"{max(each_ms):.2f})   bar {BAR_MS:g} ms   "
        f"{'holds' if median(each_ms) <= BAR_MS else 'FAILS'}"
    )
    print(f"  where devices differ {differ_ms[0]:6.2f} ms")
    print(f"  simulated as a whole {whole_ms:6.2f} ms, of the first {len(whole)}")
    print(f"  the two differ by    {differ:.1e} at most")


if __name__ == "__main__":
    main()
