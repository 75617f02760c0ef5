"""Whether the mend of a slow habit gains what steptime check says that it does.

    python benchmarks/gains.py [--only 50,53] [--turns 3] [--backend gloo]

Each script of examples/broken that is right and slow runs in turns with its twin, both without
steptime, with a clock that reads when the first optimizer has stepped, and then under check, which
sees neither the twin nor these times. *told* is the gain that check tells of the script alone,
*measured* what the twin's step takes less of the script's: medians of the turns, with the least
and the most. A step is the median of a run's, on its slowest rank, without the first; the mean
where the habit is one of passes through the data, and not of steps. One thread a rank, one script
at a time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gallery import Expected, check, scripts

_CLOCK = """
import atexit, json, os, runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
stepped = []
register_optimizer_step_post_hook(lambda *_: stepped.append(time.perf_counter()))
def leave():
    with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as file:
        json.dump(stepped, file)
atexit.register(leave)
runpy.run_path(sys.argv[2], run_name="__main__")
"""
_FOREVER_S = 300
_OF_PASSES = ("88", "90", "99")


def step_s(script: Path, ranks: int, backend: str, folder: Path) -> float:
    """How long a step of a script takes without steptime."""
    for before in folder.glob("*.json"):
        before.unlink()
    clock = folder / "clock.py"
    clock.write_text(_CLOCK, encoding="utf-8")
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    # Not by its exit code: a thread of gloo may abort the process once all is over, and each rank
    # has written its clock by then.
    subprocess.run(
        [sys.executable, "-m", *torchrun, str(clock), str(folder), str(script)],
        env={**os.environ, "BACKEND": backend, "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        timeout=_FOREVER_S,
    )
    of_ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    lengths = [[end - begin for begin, end in pairwise(stepped)][1:] for stepped in of_ranks]
    typical = statistics.mean if script.name.startswith(_OF_PASSES) else statistics.median
    return max(typical(one) for one in lengths)


def told(script: Expected, backend: str, folder: Path) -> float | None:
    """The gain that check tells of a script, None where it tells none."""
    found = [one for one in check(script, backend, folder).findings if one["kind"] == "slow"]
    gains: list[float] = [one["gain"] for one in found if one["gain"] is not None]
    return max(gains, default=None)


def judge(script: Expected, turns: int, backend: str) -> None:
    """Run a script and its twin in turns, and print their row."""
    twin = script.file.with_name(f"{script.file.stem}-fixed.py")
    slow, right, gains = [], [], []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            slow.append(step_s(script.file, script.ranks, backend, folder))
            right.append(step_s(twin, script.ranks, backend, folder))
            gain = told(script, backend, folder)
            gains += [] if gain is None else [gain]
    measured = [1 - after / before for before, after in zip(slow, right, strict=True)]
    print(
        f"{script.file.stem:32} {1e3 * statistics.median(slow):8.2f} "
        f"{1e3 * statistics.median(right):8.2f} {_spread(measured):>24} {_spread(gains):>24}",
        flush=True,
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "none"
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--backend", default="gloo", choices=("gloo", "steptime"))
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    only = given.only.split(",") if given.only else []
    print(f"{'script':32} {'step, ms':>8} {'mended':>8} {'measured gain':>24} {'told gain':>24}")
    for script in scripts(only, "faults"):
        if script.kinds == ["slow"]:
            judge(script, given.turns, given.backend)


if __name__ == "__main__":
    main()
