"""Whether a diff of revisions cries wolf, and whether it sees a step that is 5 % slower.

    python benchmarks/diff_power.py [--of proxy|train] [--trials 1-20] [--file FILE]

Every trial lets three revisions of steptime take turns with a small live run, as steptime diff
--against --see 5% does with two, as often as it takes: A, the same again, and one in which every
step takes 5 % longer. A against the same must show no difference, A against the slower one must.
Trials are appended to FILE, so that they can be run in pieces, and what the file holds is summed up
at the end.

The proxy sleeps in place of computing and really moves its bytes, so its equal runs differ by what
communication does. The training computes: its equal runs differ by as much as the machine's speed
wanders, which decides how many pairs it takes.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from steptime.ratios import MOST_PAIRS
from steptime.study.diff import Diff, compared
from steptime.study.diff_against import Checkout, stoppable, take_turns, worktree
from steptime.study.diff_runs import read_run

ROOT = Path(__file__).parent.parent
SLOWER = 0.05
SLEEP = f"time.sleep({SLOWER} * (ended - start))"
BUSY = f"while time.perf_counter() - start < {1 + SLOWER} * (ended - start): pass"


@dataclass(frozen=True)
class Work:
    """A command, the file of its steps, their first line, what follows the last, and what slows."""

    command: str
    file: Path
    first: str
    last: str
    slower: str


WORKS = {
    "proxy": Work(
        command="proxy cosmoflow --ranks 2 --batch 4 --backend steptime --compute sleep "
        "--device-flops 5TFLOP/s --steps 20",
        file=Path("src/steptime/replay/replay.py"),
        first="            streams.add_step(step)\n",
        last="            bounds.append(perf_counter())\n",
        slower=SLEEP,
    ),
    "train": Work(  # busy, for the other rank would be the faster for one that slept
        command="train --ranks 2 --layers 2 --heads 2 --hidden 64 --tokens 64 --batch 32 "
        "--precision fp32 --backend steptime --steps 60",
        file=Path("src/steptime/train/loop.py"),
        first="            loss = _forward_and_backward(training, step, scale.scale)\n",
        last="        if training.precision.scaled:\n            scale = scale.after",
        slower=BUSY,
    ),
}


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def plant(folder: Path, work: Work) -> None:
    """Let every step take longer by SLOWER of its time."""
    text = (folder / work.file).read_text()
    found = text.count(work.first), text.count(work.last)
    assert found == (1, 1), f"{work.file} has changed: mend this benchmark"
    text = text.replace(work.first, f"            start = time.perf_counter()\n{work.first}")
    slower = f"            ended = time.perf_counter()\n            {work.slower}\n"
    text = text.replace(work.last, slower + work.last)
    text = text.replace("\nfrom collections.abc", "\nimport time\nfrom collections.abc", 1)
    (folder / work.file).write_text(text)


def trial(folder: Path, work: Work) -> dict[str, dict[str, object]]:
    tree = Checkout(folder, Path("src"))
    with (
        worktree(tree, "same") as a,
        worktree(tree, "same") as same,
        worktree(tree, "slower") as slower,
        tempfile.TemporaryDirectory(prefix="steptime-") as out,
    ):
        sides = {"a": a, "same": same, "slower": slower}
        turns = take_turns(sides, work.command.split(), MOST_PAIRS, Path(out), lambda _: None)
        runs = ({side: read_run(run, None) for side, run in turn.items()} for turn in turns)
        # Each takes as many turns as it needs by itself, the second first those of the first.
        of_same, of_slower = itertools.tee(runs)
        return {
            "same": summary(compared(((turn["a"], turn["same"]) for turn in of_same), SLOWER)),
            "slower": summary(
                compared(((turn["a"], turn["slower"]) for turn in of_slower), SLOWER)
            ),
        }


def summary(found: Diff) -> dict[str, object]:
    record = found.record()
    kept = {name: record[name] for name in ("ratio", "ci95", "different")}
    return kept | {side: [one["step_time_s"] for one in record[side]] for side in "ab"}


def tell(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for side, what in (("same", "the same again"), ("slower", f"{100 * SLOWER:g} % slower")):
        found = [line[side] for line in lines]
        told = sum(one["different"] for one in found)
        ratios = sorted(one["ratio"] for one in found)
        pairs = sorted(len(one["a"]) for one in found)
        held = sum(one["ci95"][0] <= 1 <= one["ci95"][1] for one in found)
        print(
            f"{what}: a difference in {told} of {len(found)}; ratios {ratios[0]:.3f} to "
            f"{ratios[-1]:.3f}, median {ratios[len(ratios) // 2]:.3f}; {pairs[0]} to {pairs[-1]} "
            f"pairs, median {pairs[len(pairs) // 2]}; 1 in {held} of the 95 % intervals"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=WORKS, default="proxy")
    parser.add_argument("--trials", default="1-20")
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    first, _, last = asked.trials.partition("-")
    with stoppable(), tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        file = asked.file or Path(temporary) / "trials.jsonl"
        folder = Path(temporary) / "tree"
        subprocess.run(["cp", "-r", ROOT / "src", folder.parent / "src"], check=True)
        folder.mkdir()
        (folder.parent / "src").rename(folder / "src")
        git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", "the same")
        git(folder, "tag", "same")
        plant(folder, WORKS[asked.of])
        git(folder, "commit", "--quiet", "--all", "--message", "slower")
        git(folder, "tag", "slower")
        for number in range(int(first), int(last or first) + 1):
            line = {"trial": number, "of": asked.of, **trial(folder, WORKS[asked.of])}
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            print(f"trial {number} done", file=sys.stderr, flush=True)
        tell(file)


if __name__ == "__main__":
    main()
