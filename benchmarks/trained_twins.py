"""How far simulated steps of models that ranks share are from the same steps trained live.

    python benchmarks/trained_twins.py [--ranks 4] [--backend gloo] [--steps 10] [--cases WORD]
        [--folder DIR]

``steptime topo --measure`` measures this machine once. Then each case is trained by
``steptime compare MODEL AXES --cluster cluster.toml``, which simulates the same Program with the
compute that was measured. Given: compute and update of each rank. Calibrated: links and calls of
the machine. Predicted: what communication is exposed, and so the step. DIR keeps what was run,
so that several short calls fill one table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

GPT2 = "gpt2-nano"
LLAMA = "llama-nano"
MIXTURE = "llama-nano-moe"
SHARED = "sharded,overlapped_sharded"
ON_2: Mapping[str, tuple[str, ...]] = {
    "GPT-2 data 2": (GPT2, "--strategies", "all"),
    "GPT-2 tensor 2": (GPT2, "--tensor", "2", "--strategies", "replicated"),
    "GPT-2 tensor 2, tokens too": (
        *(GPT2, "--tensor", "2", "--sequence-parallel", "--strategies", "replicated"),
    ),
    **{
        f"GPT-2 pipeline 2 {schedule}": (
            *(GPT2, "--pipeline", "2", "--schedule", schedule, "--strategies", "replicated"),
        )
        for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1", "dualpipev")
    },
    "GPT-2 context 2": (GPT2, "--context", "2", "--strategies", SHARED),
    "Llama data 2": (LLAMA, "--strategies", "all"),
    "Llama tensor 2": (LLAMA, "--tensor", "2", "--strategies", "replicated"),
    "Llama pipeline 2 1f1b": (LLAMA, "--pipeline", "2", "--strategies", "replicated"),
    "Llama pipeline 2 zb-h1": (
        *(LLAMA, "--pipeline", "2", "--schedule", "zb-h1", "--strategies", "replicated"),
    ),
    "Llama context 2": (LLAMA, "--context", "2", "--strategies", SHARED),
    "experts 2": (MIXTURE, "--expert", "2", "--strategies", SHARED),
}
ON_4: Mapping[str, tuple[str, ...]] = {
    "GPT-2 data 4": (GPT2, "--strategies", SHARED),
    "GPT-2 tensor 2": (GPT2, "--tensor", "2", "--strategies", SHARED),
    "GPT-2 tensor 2, tokens too": (GPT2, "--tensor", "2", "--sequence-parallel"),
    "GPT-2 tensor 4": (GPT2, "--tensor", "4", "--strategies", "replicated"),
    "GPT-2 pipeline 2": (GPT2, "--pipeline", "2", "--strategies", SHARED),
    "GPT-2 pipeline 2 gpipe": (GPT2, "--pipeline", "2", "--schedule", "gpipe"),
    "GPT-2 pipeline 4": (GPT2, "--pipeline", "4", "--strategies", "replicated"),
    "GPT-2 tensor 2 × pipeline 2": (GPT2, "--tensor", "2", "--pipeline", "2"),
    "GPT-2 context 2": (GPT2, "--context", "2", "--strategies", SHARED),
    "Llama tensor 2": (LLAMA, "--tensor", "2", "--strategies", SHARED),
    "Llama pipeline 2 zb-h1": (LLAMA, "--pipeline", "2", "--schedule", "zb-h1"),
    "Llama context 2": (LLAMA, "--context", "2", "--strategies", SHARED),
    "experts 2": (MIXTURE, "--expert", "2", "--strategies", SHARED),
    "experts 2 × tensor 2": (MIXTURE, "--expert", "2", "--tensor", "2", "--strategies", SHARED),
}
CASES = {2: ON_2, 4: ON_4}
"""Where no strategies are named, all four that go with an axis are trained."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4, choices=CASES)
    parser.add_argument("--backend", default="gloo", choices=("gloo", "steptime"))
    parser.add_argument("--steps", default="10")
    parser.add_argument("--cases", default="", help="those with this word in their name")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = (asked.folder or Path(temporary)).resolve() / f"{asked.backend}-{asked.ranks}"
        folder.mkdir(parents=True, exist_ok=True)
        where = ("--ranks", str(asked.ranks), "--threads", "1", "--backend", asked.backend)
        cluster = folder / "cluster.toml"
        if not cluster.exists():
            run("topo", "--measure", "--cluster-file", str(cluster), *where, out=folder / "machine")
        how = (*where, "--tokens", "64", "--batch", "16", "--cluster", str(cluster))
        for name, words in CASES[asked.ranks].items():
            kept = folder / f"{name}.json"
            if asked.cases in name and not kept.exists():
                told = run("compare", *words, *how, "--steps", asked.steps, out=folder / name)
                kept.write_text(json.dumps(told))
                print(f"{name}: trained", file=sys.stderr, flush=True)
        print("\n".join(table(folder, CASES[asked.ranks])))
    return 0


def run(*words: str, out: Path) -> dict[str, Any]:
    """What a verb tells in JSON."""
    command = [sys.executable, "-m", "steptime", *words, "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout or done.stderr}")
    return dict(json.loads(done.stdout))


def table(folder: Path, cases: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """A row for each case and strategy, and the median of all errors."""
    errors = []
    yield f"{'':<30}{'':<20}{'measured':>10}{'simulated':>11}{'differs':>9}"
    for name in cases:
        kept = folder / f"{name}.json"
        if not kept.exists():
            continue
        told = json.loads(kept.read_text())
        for strategy, simulated in told["simulated"]["strategies"].items():
            there = simulated["step_time_s"]["median"]
            here = told["strategies"][strategy]["step_time_s"]["median"]
            errors.append(there / here - 1)
            yield (
                f"{name:<30}{strategy:<20}{1e3 * here:>7.1f} ms{1e3 * there:>8.1f} ms"
                f"{errors[-1]:>+9.0%}"
            )
    if errors:
        off = np.abs(errors)
        middle, most = np.median(off), off.max()
        yield f"{len(errors)} steps: {middle:.0%} off in the median, {most:.0%} at most"


if __name__ == "__main__":
    sys.exit(main())
