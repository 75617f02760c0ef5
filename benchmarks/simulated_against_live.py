"""How far simulated steps are from measured ones: the same proxies, simulated and live, in turn.

    python benchmarks/simulated_against_live.py [--backend gloo] [--ranks 4] [--steps 6]
        [--cases dlrm,resnet152] [--folder FOLDER]

First ``steptime topo --measure`` measures this machine: its pairs one at a time, all pairs at once,
each kind of call alone, and the device. What it leaves, cluster.toml, is all that the simulation
knows; no proxy has been run by then. Then each proxy runs by ``steptime proxy … --cluster
cluster.toml --live``: the simulated step time over the median of the measured ones, less 1.

The measured calls are of the collectives that are then predicted, so that the error "given calls"
is that of overlap, order and waiting alone. The error "by links" is that of the same simulation
without them: of latencies and bandwidths of pairs, and the algorithm that is the fastest by these.

Both leave their files in FOLDER, by backend, by default a temporary one. Cases that it holds are
not run again, so that several short calls fill one table; the table shows every case there.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steptime.units import format_seconds

COMPAT = ("--compat", "dnn-cpp-proxies")
COMPUTING = ("--device-flops", "5TFLOP/s")
QUARTER = ("--scale-bytes", "1/4")
GPT2 = ("gpt2-124M", *COMPUTING)
MIXTRAL = (
    *("mixtral-8x7B", "--layers", "2", "--tokens", "512", "--micro-batches", "2"),
    *("--scale-bytes", "1/16", "--device-flops", "50TFLOP/s"),
)
CASES: Mapping[str, tuple[str, ...]] = {
    "cosmoflow": ("cosmoflow", *COMPAT),
    "dlrm": ("dlrm", *COMPAT),
    "resnet152": ("resnet152", *COMPAT),
    "resnet50": ("resnet50", *COMPAT),
    "resnet50_ring": ("resnet50_ring", *COMPAT),
    "bert_large": ("bert_large", *COMPAT),
    "bert_large 2 × 2": ("bert_large", *COMPAT, "--pipeline", "2", *QUARTER),
    "gpt2_large": ("gpt2_large", *COMPAT),
    "gpt2_large 2 × 2": ("gpt2_large", *COMPAT, "--pipeline", "2", *QUARTER),
    "GPT-2 replicated": (*GPT2, "--batch", "4"),
    "GPT-2 sharded": (*GPT2, "--batch", "4", "--strategy", "sharded"),
    "GPT-2 overlapped": (*GPT2, "--batch", "4", "--strategy", "overlapped"),
    "GPT-2 pipeline 4": (*GPT2, "--pipeline", "4", "--micro-batches", "8"),
    "GPT-2 tensor 2 × pipeline 2": (*GPT2, "--tensor", "2", "--pipeline", "2"),
    "Mixtral tensor 4": (*MIXTRAL, "--tensor", "4"),
    "Mixtral expert 4": (*MIXTRAL, "--expert", "4"),
    "CosmoFlow": ("cosmoflow", *COMPUTING, "--batch", "4"),
    "DLRM": ("dlrm", *COMPUTING, "--batch", "8192"),
    "ResNet-50": ("resnet50", *COMPUTING),
}
"""The originals by their own names, then ours; where bytes are reduced, the words say so."""

STEPS = {"dlrm": 50}
"""Measured steps of those that are too short for the few of the others."""

OF_ALL = ("all", "originals", "ours")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", choices=("gloo", "mpi", "steptime"))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--cases", help=f"names with commas; default: all {len(CASES)}")
    asked = parser.parse_args()
    names = asked.cases.split(",") if asked.cases else list(CASES)
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = (asked.folder or Path(temporary)).resolve() / asked.backend
        folder.mkdir(parents=True, exist_ok=True)
        where = ("--ranks", str(asked.ranks), "--threads", "1", "--backend", asked.backend)
        run_all(names, folder, where, asked.steps)
        print("\n".join(table(folder, asked.backend, asked.ranks)))
    return 0


def run_all(names: Sequence[str], folder: Path, where: Sequence[str], steps: int) -> None:
    """Measure the machine and run the cases, all that the folder does not hold yet."""
    cluster, links = folder / "cluster.toml", folder / "links.toml"
    if not cluster.exists():
        told = steptime("topo", "--measure", "--cluster-file", str(cluster), *where, out="machine",
                        folder=folder)  # fmt: skip
        if isinstance(told, str):
            sys.exit(f"error: the machine could not be measured, so nothing is predicted: {told}")
        say("machine", told)
    links.write_text(cluster.read_text().partition("\n[calls]\n")[0])  # the last section
    for name in names:
        kept = folder / f"{name}.json"
        if not kept.exists():
            ranks = where[:2]  # all that a simulation needs to know
            length = ("--steps", str(STEPS.get(name, steps)))
            by_calls = ("--cluster", str(cluster), "--live", *length)
            told = steptime("proxy", *CASES[name], *where, *by_calls, out=name, folder=folder)
            by_links = steptime("proxy", *CASES[name], *ranks, "--cluster", str(links),
                                out=f"{name} by links", folder=folder)  # fmt: skip
            row = {"name": name, "words": CASES[name], "run": told, "by_links": by_links}
            kept.write_text(json.dumps(row))
            say(name, told)


def say(name: str, told: Mapping[str, Any] | str) -> None:
    print(f"{name}: {told if isinstance(told, str) else 'measured'}", file=sys.stderr, flush=True)


def steptime(*words: str, out: str, folder: Path) -> Mapping[str, Any] | str:
    """What a verb tells in JSON, or why it did not."""
    command = [sys.executable, "-m", "steptime", *words, "--json", "--out", str(folder / out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    except subprocess.TimeoutExpired:
        return "took more than 150 s"
    if done.returncode:
        return str(json.loads(done.stdout)["error"]) if done.stdout else done.stderr[-300:]
    return dict(json.loads(done.stdout))


def table(folder: Path, backend: str, ranks: int) -> Iterator[str]:
    """A row for each case of a folder, in their order, and the medians."""
    kept = {row["name"]: row for row in (json.loads(p.read_text()) for p in folder.glob("*.json"))}
    rows = [kept[name] for name in CASES if name in kept]
    ran = [row for row in rows if not isinstance(row["run"], str)]
    yield f"{ranks} ranks on {backend}; a step, median of the measured ones (p10 to p90)"
    yield f"{'':<28}{'':>12}{'':>22}{'simulated':>12}{'error':>13}{'error':>10}"
    ways = f"{'given calls':>12}{'given calls':>13}{'by links':>10}"
    yield f"{'':<28}{'measured':>12}{'':>22}{ways}  computing"
    for row in ran:
        run, step = row["run"], row["run"]["step_time_s"]
        share = run["phases"]["compute"]["mean_s"] / step["median"]
        spread = f"({format_seconds(step['p10'])} to {format_seconds(step['p90'])})"
        yield (
            f"{row['name']:<28}{format_seconds(step['median']):>12}{spread:>22}"
            f"{format_seconds(run['simulated']['step_time_s']['median']):>12}"
            f"{given_calls(row):>+13.1%}{by_links(row):>+10.1%}{share:>11.0%}"
        )
    for row in rows:
        for told in (row["run"], row["by_links"]):
            if isinstance(told, str):
                yield f"{row['name']:<28}{told}"
    yield from medians(ran, "given calls", given_calls)
    yield from medians(ran, "by links", by_links)


def given_calls(row: Mapping[str, Any]) -> float:
    """The error of the simulation that knows how long each kind of call takes alone."""
    return float(row["run"]["error"]["step_time"])


def by_links(row: Mapping[str, Any]) -> float:
    """The error of the one that knows latencies and bandwidths alone; nan where it failed."""
    if isinstance(row["by_links"], str):
        return math.nan
    simulated = row["by_links"]["step_time_s"]["median"]
    return float(simulated / row["run"]["step_time_s"]["median"] - 1)


def medians(
    ran: Sequence[Mapping[str, Any]], way: str, error: Callable[[Mapping[str, Any]], float]
) -> Iterator[str]:
    originals = [row for row in ran if COMPAT[0] in row["words"]]
    ours = [row for row in ran if COMPAT[0] not in row["words"]]
    for what, chosen in zip(OF_ALL, (ran, originals, ours), strict=True):
        errors = np.abs([found for row in chosen if not math.isnan(found := error(row))])
        if errors.size:
            yield (
                f"median error {way} of {what}, {errors.size} proxies: {np.median(errors):.1%}; "
                f"{(errors <= 0.1).sum()} within 10 %, worst {errors.max():.1%}"
            )


if __name__ == "__main__":
    sys.exit(main())
