"""Whether bench names a false winner among equals, and whether it names the true one.

    python benchmarks/bench_winner.py [--runs 4] [--iters 20] [--backend mpi]

A ring all_reduce takes turns with its twin, the same ring under another name: a winner of these is
false by construction, and the bar is one contest in sixty. It takes turns with a slower one too,
which goes through the ring's second half twice: half as many messages again on 2 ranks. A slower
one that is called the fastest is false as well; how often the ring is, depends on the machine.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST_FALSE = 1 / 60
OTHERS = """from itertools import chain
from steptime.collectives import algorithm
from steptime.collectives.algorithm import algorithms

RING = algorithms("all_reduce")["ring"]

@algorithm("all_reduce")
def {name}(ranks):
    "The ring, with so many rounds of its second half."
    rounds = list(RING.generate(ranks))
    yield from chain(rounds, rounds[len(rounds) // 2:] * {again})
"""


def contests(name: str, again: int, seed: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """The contests of the ring with another, at sizes of 4 bytes to 1 MiB."""
    with tempfile.TemporaryDirectory(prefix="steptime-") as folder:
        other = Path(folder) / f"{name}.py"
        other.write_text(OTHERS.format(name=name, again=again))
        words = ["--ranks", "2", "--backend", asked.backend, "--iters", str(asked.iters)]
        sizes = ["-b", "4", "-e", "1M", "-f", "1.25", "--algorithms", f"ring,{other}"]
        out = ["--seed", str(seed), "--out", f"{folder}/run", "--quiet", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "steptime", "bench", "all_reduce", *words, *sizes, *out],
            check=True,
            capture_output=True,
        )
    found: list[dict[str, Any]] = json.loads(done.stdout)["contests"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--backend", default="mpi")
    asked = parser.parse_args()
    failed = False
    for name, again in (("twin", 0), ("slower", 1)):
        runs = (contests(name, again, seed, asked) for seed in range(asked.runs))
        found = list(itertools.chain.from_iterable(runs))
        named = [one["winner"] for one in found if one["winner"]]
        false = len(named) - (named.count("ring") if name == "slower" else 0)
        apart = [max(ratio["against_best"] for ratio in one["ratios"].values()) for one in found]
        shorter = sum(ratio > 1.1 for ratio in apart)
        print(
            f"ring and {name}, {len(found)} contests: {false} false winners, "
            f"{len(named) - false} true, {len(found) - len(named)} level; "
            f"{shorter} seemed over 10 % apart"
        )
        failed |= false > MOST_FALSE * len(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
