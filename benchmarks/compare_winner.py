"""Whether compare names a false winner beside a busy neighbour.

    python benchmarks/compare_winner.py [--runs 100] [--quiet-runs 6] [--twins 20] [--file FILE]

The compare of README runs so many times beside one busy loop, a process that this script starts and
ends. What it should have said comes of quiet runs before: of 20 steps each, and the unit of the
interval is the run, since equal runs differ as wholes. A winner is false where the quiet runs show
with 95 % confidence that another strategy is faster; the bar is none. --twins compares a strategy
with a copy of itself on the quiet machine, so often: a winner there is false by construction, and
the bar is one in sixty. Every run is appended to FILE, and what FILE holds already is not run
again, so the benchmark may be stopped and resumed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from steptime.ratios import CONFIDENCE, paired
from steptime.study.diff_against import stoppable

STRATEGIES = ("server", "sharded", "overlapped")
KINDS = ("quiet", "busy", "twins")
STEPS, QUIET_STEPS = 5, 20
TWIN = """from dataclasses import replace
from steptime.strategies import strategy_named
STRATEGY = replace(strategy_named("sharded"), name="twin")
"""


BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Ends by itself where this script could not end it."""


@contextmanager
def busy_loop() -> Iterator[None]:
    """A process that computes all the time."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            yield
        finally:
            process.kill()


def run(kind: str) -> dict[str, Any]:
    """One compare of a kind, and what is kept of its record."""
    with tempfile.TemporaryDirectory(prefix="steptime-") as folder:
        twin = Path(folder) / "twin.py"
        twin.write_text(TWIN)
        names = ("sharded", str(twin)) if kind == "twins" else STRATEGIES
        steps = STEPS if kind == "busy" else QUIET_STEPS
        words = ["--ranks", "2", "--steps", str(steps), "--strategies", ",".join(names)]
        out = ["--out", f"{folder}/run", "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "steptime", "compare", *words, *out],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        record = json.loads((Path(folder) / "run" / "run.json").read_text())
    blocks = record["turns"]["blocks"]
    logs = {
        name: [np.log(block["step_time_s"]) for block in blocks if block["strategy"] == name]
        for name in record["strategies"]
    }
    return {
        "kind": kind,
        **{name: record[name] for name in ("winner", "level_with", "ratios")},
        "log_step": {name: float(np.mean(of)) for name, of in logs.items()},
        "others_cores": float(np.mean([block.get("others_cores", 0.0) for block in blocks])),
    }


def faster(quiet: Sequence[dict[str, Any]], name: str) -> list[str]:
    """The strategies that are faster than this one, as the quiet runs show."""
    logs = {one: np.array([line["log_step"][one] for line in quiet]) for one in STRATEGIES}
    return [
        other
        for other in STRATEGIES
        if other != name and paired(logs[other], logs[name]).interval(CONFIDENCE)[0] > 0
    ]


def tell(lines: Sequence[dict[str, Any]]) -> int:
    """Print what all lines come to; how many winners beside the busy loop were false."""
    quiet, busy, twins = ([x for x in lines if x["kind"] == kind] for kind in KINDS)
    for kind, of in zip(KINDS, (quiet, busy, twins), strict=True):
        if of:
            others = np.mean([line["others_cores"] for line in of])
            named = Counter(Path(line["winner"] or "nobody").stem for line in of)
            shortest = Counter(Path(min(x["log_step"], key=x["log_step"].get)).stem for x in of)
            print(
                f"{len(of)} runs, {kind}, other processes on {others:.1f} cores: named "
                f"{told(named)}; the least time had {told(shortest)}"
            )
    logs = {one: np.array([line["log_step"][one] for line in quiet]) for one in STRATEGIES}
    best = min(STRATEGIES, key=lambda one: logs[one].mean())
    for name in STRATEGIES:
        if name != best:
            found = paired(logs[best], logs[name])
            low, high = np.exp(found.interval(CONFIDENCE))
            told_by = f"95 % interval {low:.3f} to {high:.3f}, {len(quiet)} quiet runs"
            print(f"{name} takes {np.exp(found.center):.3f} times {best}'s step ({told_by})")
    false = [line["winner"] for line in busy if line["winner"] and faster(quiet, line["winner"])]
    print(f"false winners beside a busy loop: {len(false)} of {len(busy)}")
    return len(false)


def told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--quiet-runs", type=int, default=6)
    parser.add_argument("--twins", type=int, default=20)
    parser.add_argument("--file", type=Path, default=Path("compare_winner.jsonl"))
    asked = parser.parse_args()
    text = asked.file.read_text() if asked.file.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]

    def further(kind: str, count: int) -> None:
        done = sum(line["kind"] == kind for line in lines)
        for number in range(done + 1, count + 1):
            lines.append(run(kind))
            with asked.file.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
            winner = lines[-1]["winner"]
            print(f"{kind} run {number} of {count} named {winner}", file=sys.stderr, flush=True)

    with stoppable():
        further("quiet", asked.quiet_runs)
        further("twins", asked.twins)
        with busy_loop():
            further("busy", asked.runs)
    return int(tell(lines) > 0)


if __name__ == "__main__":
    sys.exit(main())
