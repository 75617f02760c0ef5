"""A link that is slowed in one of two trainings: does diff name its host, and by how much.

    python benchmarks/emulated_slow_link.py [--runs 10]

Three emulated hosts train, once calm, and then, run by run, with the link of a random host slowed
by a random factor from 2 to 10. What the training measured is all that ``steptime diff`` has: the
host and the factor are given to the emulation alone. One in four runs is calm, and nothing may be
named in it.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from emulated_shared import cluster_text

HOSTS, STEPS = 3, 20
MODEL = "--layers 1 --heads 2 --hidden 64 --tokens 32 --batch 3 --precision fp32 --threads 1"


def train(folder: Path, name: str, faults: str) -> Path:
    """Train on the hosts; the folder of the run."""
    file = folder / "cluster.toml"
    file.write_text(cluster_text("Three hosts", HOSTS, "8MB/s"))
    steptime = [sys.executable, "-m", "steptime"]
    emulate = [*steptime, "emulate", str(file), "--quiet", "--faults", faults, "--"]
    train = ["train", *MODEL.split(), "--steps", str(STEPS), "--out", str(folder / name)]
    done = subprocess.run(
        [*emulate, *steptime, *train], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        raise SystemExit(done.stdout[-1000:] + done.stderr[-3000:])
    return folder / name


def named(calm: Path, run: Path) -> list[tuple[str, float]]:
    """The links that diff calls slower in the run, with their factors."""
    words = [sys.executable, "-m", "steptime", "diff", str(calm), str(run), "--json"]
    answer = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return [
        ("-".join(link["hosts"]), link["factor"])
        for link in answer["slowed_links"]
        if link["slower_in"] == "b"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311
    right, errors, false = 0, [], 0
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = Path(temporary)
        calm = train(folder, "calm", "")
        for number in range(asked.runs):
            host, factor = f"host{chance.randrange(HOSTS)}", chance.uniform(2, 10)
            fault = f"link {host} rate/{factor:.1f} at 0s"
            found = named(calm, train(folder, f"slow-{number}", fault))
            good = [name for name, _ in found] == [host]
            right += good
            errors += [found[0][1] / factor - 1] if good else []
            told = ", ".join(f"{name} {times:.1f} times slower" for name, times in found)
            print(f"{fault}: {told or 'nothing named'}", flush=True)
        for number in range(asked.runs // 4):
            found = named(calm, train(folder, f"calm-{number}", ""))
            false += bool(found)
            print(f"calm: {found or 'nothing named'}", flush=True)
    worst = max(map(abs, errors), default=0.0)
    print(f"{right} of {asked.runs} named rightly, factors off by at most {worst:.0%}")
    print(f"{false} of {asked.runs // 4} calm runs had a link named")
    raise SystemExit(0 if right == asked.runs and not false else 1)


if __name__ == "__main__":
    main()
