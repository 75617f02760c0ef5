"""How far simulated steps are from measured ones: the same proxies, simulated and live, in turn.

    python benchmarks/simulated_against_live.py [--backend gloo] [--ranks 4] [--steps 6]
        [--cases dlrm,resnet152] [--folder FOLDER]

First ``steptime topo --measure`` measures this machine: its pairs one at a time, all pairs at once,
each kind of call alone, and the device. What it leaves, cluster.toml, is all that the simulation
knows; no proxy has been run by then. Then each proxy runs by ``steptime proxy … --cluster
cluster.toml --live``: the simulated step time over the median of the measured ones, less 1.

Both leave their files in FOLDER, by backend, by default a temporary one. Cases that it holds are
not run again, so that several short calls fill one table; the table shows every case there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
    "dlrm": ("dlrm", *COMPAT, "--steps", "50"),
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
    cluster = folder / "cluster.toml"
    if not cluster.exists():
        told = steptime("topo", "--measure", "--cluster-file", str(cluster), *where, out="machine",
                        folder=folder)  # fmt: skip
        say("machine", told)
    for name in names:
        kept = folder / f"{name}.json"
        if not kept.exists():
            length = () if "--steps" in CASES[name] else ("--steps", str(steps))
            words = (*CASES[name], *where, *length, "--cluster", str(cluster), "--live")
            told = steptime("proxy", *words, out=name, folder=folder)
            kept.write_text(json.dumps({"name": name, "words": CASES[name], "run": told}))
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
    """A row for each case of a folder, in their order, and the median."""
    kept = {json.loads(one.read_text())["name"]: one for one in folder.glob("*.json")}
    rows = [json.loads(kept[name].read_text()) for name in CASES if name in kept]
    ran = [row for row in rows if not isinstance(row["run"], str)]
    yield f"{ranks} ranks on {backend}; a step, median of the measured ones (p10 to p90)"
    yield f"{'':<28}{'measured':>12}{'':>22}{'simulated':>12}{'error':>9}  computing"
    for row in ran:
        run = row["run"]
        step = run["step_time_s"]
        spread = f"({format_seconds(step['p10'])} to {format_seconds(step['p90'])})"
        share = run["phases"]["compute"]["mean_s"] / step["median"]
        yield (
            f"{row['name']:<28}{format_seconds(step['median']):>12}{spread:>22}"
            f"{format_seconds(run['simulated']['step_time_s']['median']):>12}"
            f"{run['error']['step_time']:>+9.1%}{share:>10.0%}"
        )
    for row in rows:
        if isinstance(row["run"], str):
            yield f"{row['name']:<28}{row['run']}"
    yield from medians(ran)


def medians(ran: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for what, chosen in zip(OF_ALL, (ran, [r for r in ran if COMPAT[0] in r["words"]],
                                     [r for r in ran if COMPAT[0] not in r["words"]]),
                            strict=True):  # fmt: skip
        if chosen:
            errors = np.abs([row["run"]["error"]["step_time"] for row in chosen])
            yield (
                f"median error of {what}, {len(chosen)} proxies: {np.median(errors):.1%}; "
                f"{(errors <= 0.1).sum()} within 10 %, worst {errors.max():.1%}"
            )


if __name__ == "__main__":
    sys.exit(main())
