"""Kill ranks of a training under torchrun again and again; see that it ends as if nobody had.

    python benchmarks/kill_soak.py [--kills 100] [--minutes 60] [--ranks 2] [--seed 0]

Trains a tiny model once in peace. Then trains it under ``torchrun --max-restarts`` with a
checkpoint every few steps, and kills a random rank with SIGKILL: half of the times after a random
while, which may fall into the start of the ranks, the other half at the moment when a checkpoint is
being written, the first after a restart or a later one. Where a training ends another one begins,
until there were enough kills. Prints for each training the kills, the restarts, and whether its
parameters and its last loss are those of the one in peace, bit for bit. Exit code 1 where one is
not.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARKER = "STEPTIME_SOAK"
TORCHRUN = Path(sys.executable).parent / "torchrun"
STEPS = 200
MODEL = "--layers 1 --heads 2 --hidden 16 --tokens 16 --batch 4 --threads 1 --precision fp32"
KEPT = f"--steps {STEPS} --checkpoint-every 5 --val-every {STEPS} --val-batches 1 --quiet --json"
WORDS = ("one", "two", "three", "four", "five")
POLL_S = 0.002


@dataclass(frozen=True)
class Ending:
    """What a training came to."""

    parameters: list[str]
    loss: float
    restarts: int


def ending(run: Path) -> Ending:
    record = json.loads((run / "run.json").read_text())
    (figures,) = record["strategies"].values()
    return Ending(figures["parameter_hash"], figures["loss"][-1], record["goodput"]["restarts"])


def command(run: Path, text: Path, ranks: int) -> list[str]:
    elastic = (
        f"--standalone --nproc-per-node={ranks} --max-restarts=1000000 --monitor-interval=0.05"
    )
    train = f"-m steptime train {MODEL} {KEPT} --resume auto"
    where = ["--data", str(text), "--out", str(run)]
    return [str(TORCHRUN), *elastic.split(), *train.split(), *where]


def ranks_of(marker: str) -> Iterator[int]:
    """The processes that are ranks of the training under way."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            environ = path.read_bytes().split(b"\0")
            if f"{MARKER}={marker}".encode() in environ and any(
                variable.startswith(b"LOCAL_RANK=") for variable in environ
            ):
                yield int(path.parent.name)


def unfinished(run: Path) -> set[str]:
    """The checkpoints that are being written, or were."""
    return {path.name for path in run.glob(".checkpoint_*[0-9]")}


def wait_for_moment(
    run: Path, process: subprocess.Popen[bytes], draw: random.Random, start_s: list[float]
) -> str:
    """Wait until it is time to kill, or the training is over; what the moment is.

    ``start_s``: what the starts so far took, from a kill to the first checkpoint after it.
    """
    left, began = unfinished(run), time.monotonic()  # of a rank that was killed before
    after = draw.choice([0, draw.randrange(20)]) if draw.random() < 0.5 else None
    until = began + draw.uniform(0, 1.5 * max(start_s, default=8.0))
    seen: set[str] = set()
    while process.poll() is None:
        present = unfinished(run)
        left &= present
        found = present - left
        if found and not seen:
            start_s.append(time.monotonic() - began)
        seen |= found
        if after is not None and found and len(seen) > after:
            time.sleep(draw.uniform(0, 0.005))
            return "write"
        if after is None and time.monotonic() > until:
            return "any"
        time.sleep(POLL_S)
    return "over"


def soak(
    run: Path, text: Path, ranks: int, most: int, deadline: float, draw: random.Random
) -> dict[str, int]:
    """Kills of one training by their moment; it is left in peace after ``most`` of them."""
    marker = str(uuid.uuid4())
    kills = {"any": 0, "write": 0}
    start_s: list[float] = []
    with (run.parent / "log").open("ab") as log:
        process = subprocess.Popen(
            command(run, text, ranks),
            env={**os.environ, MARKER: marker},
            stdout=log,
            stderr=log,
        )
        try:
            while sum(kills.values()) < most and time.monotonic() < deadline:
                moment = wait_for_moment(run, process, draw, start_s)
                if moment == "over":
                    break
                if alive := list(ranks_of(marker)):
                    with suppress(ProcessLookupError):
                        os.kill(draw.choice(alive), signal.SIGKILL)
                        kills[moment] += 1
                        while any(pid in alive for pid in ranks_of(marker)):
                            time.sleep(POLL_S)  # torchrun ends the others before it starts new ones
            process.wait()
        finally:
            process.kill()
    return kills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)  # noqa: S311 - it kills, and keeps no secret
    deadline = time.monotonic() + 60 * asked.minutes
    folder = Path(tempfile.mkdtemp(prefix="kill-soak-"))
    text = folder / "text.txt"
    text.write_text(" ".join(draw.choice(WORDS) for _ in range(9999)))
    soak(folder / "peace", text, asked.ranks, 0, deadline, draw)
    peace = ending(folder / "peace")
    print(f"in peace: {STEPS} steps, loss {peace.loss}, {peace.parameters[0]}", flush=True)
    total, number, unequal = 0, 0, 0
    while total < asked.kills and time.monotonic() < deadline:
        number += 1
        run = folder / f"run-{number}"
        kills = soak(run, text, asked.ranks, asked.kills - total, deadline, draw)
        ended = ending(run)
        equal = (ended.parameters, ended.loss) == (peace.parameters, peace.loss)
        unequal += not equal
        total += sum(kills.values())
        print(
            f"training {number}: {kills['any']} kills at any moment, {kills['write']} while a "
            f"checkpoint was written, {ended.restarts} restarts after the first checkpoint, "
            f"{'equal' if equal else 'NOT EQUAL'}",
            flush=True,
        )
    print(f"{total} kills, {number} trainings, {unequal} not equal")
    shutil.rmtree(folder)
    return int(unequal > 0)


if __name__ == "__main__":
    sys.exit(main())
