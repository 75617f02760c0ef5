"""How quick a plan is: layouts estimated a second on one core, and a whole plan of a large model.

    python benchmarks/plan_speed.py

The figures of each are measured here: the median of five passes over every layout of Llama 3.1 405B
on 16,384 H100, without pruning; then `steptime plan` of the same as people call it, in a process of
its own, with the memory that it takes at most. Calculon estimates 34 to 93 layouts a second.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import json
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

from steptime.cluster import cluster_named
from steptime.plan.search import memory_bytes
from steptime.plan.space import Space, layouts_in
from steptime.predict.estimate import estimate
from steptime.predict.machine import machine_of
from steptime.predict.software import software_named
from steptime.workloads.models import model_named, transformer_of

MODEL, CLUSTER, TOKENS, BATCH = "llama3.1-405B", "h100-16384", 8192, 2048
PASSES, CHUNK = 5, 1 << 14
LEAST_PER_S, MOST_S, MOST_BYTES = 20_000, 60.0, 1e9


def main() -> int:
    """Print both judgements; 1 where one is missed."""
    rates = estimated_per_s()
    print(f"estimated: {median(rates):,.0f} layouts/s on one core, memory and time of each")
    wall_s, most, searched = planned()
    print(f"plan {MODEL} --cluster {CLUSTER}: {wall_s:.1f} s, {most / 1e6:,.0f} MB, {searched:,}")
    return int(median(rates) < LEAST_PER_S or wall_s > MOST_S or most > MOST_BYTES)


def estimated_per_s() -> list[float]:
    """Layouts a second of each pass, after one that warms up."""
    model = transformer_of(model_named(MODEL))
    cluster = cluster_named(CLUSTER)
    machine = machine_of(cluster, software_named("megatron"))
    space = Space(model=model, ranks=cluster.order.size, batch=BATCH, tokens=TOKENS)
    rows = layouts_in(space)[:: 1 + PASSES // 2]
    found = []
    for _ in range(PASSES + 1):
        began = time.perf_counter()
        memory_bytes(model, rows, machine)
        for begin in range(0, rows.size, CHUNK):
            estimate(model, rows[begin : begin + CHUNK], machine)
        found.append(rows.size / (time.perf_counter() - began))
    return found[1:]


def planned() -> tuple[float, float, int]:
    """Seconds and bytes of the command as it is called, and the layouts that it searched."""
    words = ["plan", MODEL, "--cluster", CLUSTER, "--tokens-per-row", str(TOKENS), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "steptime", *words, "--batch", str(BATCH)],
            cwd=folder,
            capture_output=True,
            check=True,
        )
        wall_s = time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return wall_s, most, json.loads(done.stdout)["searched"]


if __name__ == "__main__":
    sys.exit(main())
