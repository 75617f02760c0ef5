"""Whether a diff of revisions cries wolf, and whether it sees a step that is 5 % slower.

    python benchmarks/diff_power.py [--trials 1-20] [--pairs 15] [--file FILE] [--slower 5]

Every trial lets three revisions of steptime take turns with a small live training, as steptime diff
--against does with two: A, the same again, and one in which every step keeps its core busy for 5 %
of its time more. (It does not sleep: the other rank would be the faster for it.) A against the same
must show no difference, A against the slower one must. Trials are appended to FILE, so that they
can be run in pieces, and what the file holds is summed up at the end.

The training is in fp32: the medians of equal runs of it differ by some 2 %, those in bf16 by twice
that where memory is placed anew for each process, and 15 pairs would not do.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from steptime.study.diff import Diff, diff
from steptime.study.diff_against import Checkout, stoppable, take_turns, worktree
from steptime.study.diff_runs import read_run

ROOT = Path(__file__).parent.parent
COMMAND = (
    "train gpt2 --ranks 2 --layers 2 --heads 2 --embd 64 --context 64 --batch 32 --precision fp32 "
    "--backend steptime --steps 60"
)
LOOP = Path("src/steptime/train/loop.py")
BEGIN = "            loss = _forward_and_backward(training, step, scale.scale)\n"
END = "        if training.precision.scaled:\n            scale = scale.after"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def plant(folder: Path, part: float) -> None:
    """A step that is busy, before its end, for a part of the time since its begin."""
    text = (folder / LOOP).read_text()
    assert text.count(BEGIN) == text.count(END) == 1, f"{LOOP} has changed: mend this benchmark"
    text = text.replace(BEGIN, f"            begin = time.perf_counter()\n{BEGIN}")
    longer = (
        f"            until = begin + {1 + part} * (time.perf_counter() - begin)\n"
        "            while time.perf_counter() < until:\n"
        "                pass\n"
    )
    text = text.replace(END, longer + END).replace(
        "\nimport numpy", "\nimport time\n\nimport numpy"
    )
    (folder / LOOP).write_text(text)


def trial(folder: Path, pairs: int) -> dict[str, dict[str, object]]:
    tree = Checkout(folder, Path("src"))
    with (
        worktree(tree, "same") as a,
        worktree(tree, "same") as same,
        worktree(tree, "slower") as slower,
        tempfile.TemporaryDirectory(prefix="steptime-") as out,
    ):
        sides = {"a": a, "same": same, "slower": slower}
        done = take_turns(sides, COMMAND.split(), pairs, Path(out), lambda _: None)
        runs = {side: [read_run(one, None) for one in done[side]] for side in sides}
    return {
        side: summary(diff(runs["a"], runs[side], in_pairs=True)) for side in ("same", "slower")
    }


def summary(found: Diff) -> dict[str, object]:
    record = found.record()
    kept = {name: record[name] for name in ("ratio", "ci95", "different")}
    return kept | {side: [one["step_time_s"] for one in record[side]] for side in "ab"}


def tell(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for side, what in (("same", "the same again"), ("slower", "5 % slower")):
        found = [line[side] for line in lines]
        told = sum(one["different"] for one in found)
        ratios = sorted(one["ratio"] for one in found)
        held = sum(one["ci95"][0] <= 1 <= one["ci95"][1] for one in found)
        print(
            f"{what}: a difference in {told} of {len(found)}; ratios {ratios[0]:.3f} to "
            f"{ratios[-1]:.3f}, median {ratios[len(ratios) // 2]:.3f}; 1 in {held} of the 95 % "
            "intervals"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", default="1-20")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--slower", type=float, default=5.0, help="per cent")
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
        plant(folder, asked.slower / 100)
        git(folder, "commit", "--quiet", "--all", "--message", "slower")
        git(folder, "tag", "slower")
        for number in range(int(first), int(last or first) + 1):
            line = {"trial": number, "pairs": asked.pairs, **trial(folder, asked.pairs)}
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            print(f"trial {number} done", file=sys.stderr, flush=True)
        tell(file)


if __name__ == "__main__":
    main()
