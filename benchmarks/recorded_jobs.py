"""Whether a recorded step says what its job would take: recorded, replayed, simulated, and changed.

    python benchmarks/recorded_jobs.py [--folder FOLDER] [--jobs fsdp2,ring] [--steps 15]
        [--turns 3]

Each job is a plain script of benchmarks/jobs. First this machine is measured by ``steptime topo
--measure``, on as many ranks and by each backend that a job runs on: what that leaves is all that a
simulation knows of it. No job has run by then. Then, for each job:

calls     Bytes and order of its Program's calls are those that the library counted itself, in its
          flight recorder (gloo's counts a reduce_scatter as the all_reduce that it makes of it);
          of messages, which that leaves out, those that torch.profiler shows.
replayed  A replay makes the same calls with the same bytes in the same order, by the same counts;
          and how long its step takes.
here      The job's own step, by its own clock, without a recording; the recorded one beside it; and
          the recorded Program simulated on the measured machine.
what if   The same job changed for real, and the recorded Program simulated so: with half the rows
          (forward and backward twice as fast), one rank with twice the rows, another backend.

The columns: *given* is the recorded step, of which the simulation knows the computing, *measured*
the job, *predicted* the simulation on the machine that was calibrated before. A changed job and the
plain one run in turns, ``--turns`` each, for the machine may be slower at one time than at another;
medians of these are compared.

FOLDER keeps all of it; what it holds is not run again, so several short calls fill one table.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from steptime.dtypes import DTYPES
from steptime.program import Collective, Op, Recv, Send
from steptime.program.stored import read_programs

JOBS = Path(__file__).parent / "jobs"
FOREVER_S = 300
HALF = "forward=2x,backward=2x"
MESSAGES = ("send", "recv")
SLOW = "rank 1 forward=0.5x,rank 1 backward=0.5x"


@dataclass(frozen=True)
class Case:
    """A job, and what is changed of it: ``what_if`` for the simulation, ``words`` for the job."""

    job: str
    what: str
    what_if: str = ""
    words: Sequence[str] = ()
    backend: str = "gloo"
    ranks: int = 2


CASES = (
    Case("ddp_small_buckets", "half the rows", HALF, ("--times", "0.5")),
    Case("ddp_large_buckets", "one rank slowed", SLOW, ("--slow", "1")),
    Case("ddp_accumulate", "half the rows", HALF, ("--times", "0.5")),
    Case("fsdp2", "half the rows", HALF, ("--times", "0.5")),
    Case("tensor_parallel", "by steptime", backend="steptime"),
    Case("pipeline", ""),
    Case("ring", ""),
    Case("by_hand", "one rank slowed", SLOW, ("--slow", "1")),
    Case("zero", "by steptime", backend="steptime"),
    Case("mesh", "", ranks=4),
    Case("own_train", ""),
)

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "uint8",
}
_BYTES = {dtype.name: dtype.size for dtype in DTYPES.values()}


@dataclass
class Row:
    """What came of a job."""

    case: Case
    wrong: list[str] = field(default_factory=list)
    recorded_s: float = 0.0
    plain_s: float = 0.0
    replayed_s: float = 0.0
    predicted_s: float = 0.0
    changed_s: float = 0.0
    changed_predicted_s: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--jobs", help="names with commas; default: all")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    names = asked.jobs.split(",") if asked.jobs else [case.job for case in CASES]
    cases = [case for case in CASES if case.job in names]
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = (asked.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        places = {(b, c.ranks) for c in cases for b in ("gloo", c.backend)}
        for backend, ranks in sorted(places):
            machine(folder, backend, ranks)
        rows = [judged(case, folder, asked.steps, asked.turns) for case in cases]
        print("\n".join(table(rows)))
    return int(any(row.wrong for row in rows))


def machine(folder: Path, backend: str, ranks: int) -> Path:
    """The file of this machine as so many ranks measured it by a backend."""
    cluster = folder / f"{backend}-{ranks}.toml"
    if not cluster.exists():
        words = ("--ranks", str(ranks), "--threads", "1", "--backend", backend)
        run("topo", "--measure", "--cluster-file", str(cluster), *words,
            "--out", str(folder / cluster.stem))  # fmt: skip
    return cluster


def judged(case: Case, folder: Path, steps: int, turns: int) -> Row:
    """Record a job, replay it, simulate it, change it."""
    row, home = Row(case), folder / case.job
    home.mkdir(exist_ok=True)
    if case.job == "own_train":
        return own_train(row, home)
    recorded = home / "run"
    job = (str(JOBS / f"{case.job}.py"), "--steps", str(steps))
    if not (recorded / "run.json").exists():
        run("record", "--ranks", str(case.ranks), "--out", str(recorded), *job,
            "--leave", str(home / "counted"))  # fmt: skip
    row.recorded_s = json.loads((recorded / "run.json").read_text())["step_time_s"]["median"]
    in_turn(row, home, job, turns)
    row.predicted_s = simulated(recorded, machine(folder, "gloo", case.ranks))
    if case.what:
        place = machine(folder, case.backend, case.ranks)
        row.changed_predicted_s = simulated(recorded, place, case.what_if)
    counted = [counted_in(home / "counted" / f"{rank}.json") for rank in range(case.ranks)]
    compare_calls(row, recorded, counted)
    replayed(row, home)
    return row


def in_turn(row: Row, home: Path, job: Sequence[str], turns: int) -> None:
    """The plain job and the changed one, in turns."""
    plain, changed = [], []
    for turn in range(turns):
        plain.append(launched(home / f"plain{turn}", row.case.ranks, *job))
        if row.case.what:
            words = (*row.case.words, "--backend", row.case.backend)
            changed.append(launched(home / f"changed{turn}", row.case.ranks, *job, *words))
    row.plain_s = statistics.median(plain)
    row.changed_s = statistics.median(changed) if changed else 0.0


def launched(left: Path, ranks: int, *words: str) -> float:
    """The seconds of a job's median step, on its slowest rank, without a recording."""
    if not left.exists():
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        process(sys.executable, *torchrun, *words, "--leave", str(left))
    return max(json.loads(file.read_text())["step_s"] for file in left.glob("*.json"))


def simulated(recorded: Path, cluster: Path, what_if: str = "") -> float:
    """The seconds of a recorded step on a measured machine, changed where that is asked."""
    words = ("--what-if", what_if) if what_if else ()
    with tempfile.TemporaryDirectory(prefix="steptime-") as out:
        told = run("simulate", str(recorded), "--cluster", str(cluster), *words, "--json",
                   "--out", out + "/run")  # fmt: skip
    if what_if:
        (case,) = told["what_if"]["strategies"].values()
        return float(case["step_time_s"]["median"])
    return float(told["step_time_s"])


def replayed(row: Row, home: Path) -> None:
    """Replay a recorded step, and compare what the library then counts."""
    left = home / "replayed"
    if not left.exists():
        torchrun = ("-m", "torch.distributed.run", "--standalone",
                    "--nproc-per-node", str(row.case.ranks))  # fmt: skip
        process(sys.executable, *torchrun, str(JOBS / "replaying.py"), str(home / "run"), str(left))
    files = [left / f"{rank}.json" for rank in range(row.case.ranks)]
    row.replayed_s = max(json.loads(file.read_text())["step_s"] for file in files)
    found = [counted_in(file) for file in files]
    compare_calls(row, home / "run", found, "replayed: ", apart=True)


@dataclass(frozen=True)
class Counted:
    """What a library counted of a rank, kind and bytes in order; messages apart."""

    collectives: list[tuple[str, int]]
    messages: list[tuple[str, int]]


def counted_in(file: Path) -> Counted:
    """What a job has left; of what a root gathers or scatters, one rank's part was counted."""
    ranks = len(list(file.parent.glob("*.json")))
    found = json.loads(file.read_text())
    collectives = []
    for entry in sorted(found["counted"], key=lambda entry: entry["record_id"]):
        kind = entry["profiling_name"].split(":")[1].split()[0]
        side = "output" if kind in ("all_gather", "scatter") else "input"
        sizes, dtypes = entry[f"{side}_sizes"], entry[f"{side}_dtypes"]
        nbytes = sum(
            prod(size) * _BYTES[_DTYPES[dtype]] for size, dtype in zip(sizes, dtypes, strict=True)
        )
        collectives.append((kind, nbytes * (ranks if kind in ("gather", "scatter") else 1)))
    return Counted(collectives, [(kind, nbytes) for kind, nbytes in found.get("messages", ())])


def compare_calls(
    row: Row, recorded: Path, counted: Sequence[Counted], of: str = "", *, apart: bool = False
) -> None:
    """Note where a rank's calls in a step are not some of those counted, one after the other.

    ``apart``: messages that are sent and those received keep their order only by themselves.
    """
    (stored,) = read_programs(recorded)
    program = stored.program
    for rank, own in enumerate(counted):
        called = [call for op in program.lists[program.class_of[rank]] if (call := call_of(op))]
        for wanted, seen in (
            (_collectives(called), _collectives(own.collectives)),
            *((_of(called, kinds), _of(own.messages, kinds)) for kinds in _messages(apart)),
        ):
            starts = range(len(seen) - len(wanted) + 1)
            if not any(seen[at : at + len(wanted)] == wanted for at in starts):
                row.wrong.append(f"{of}rank {rank} calls other bytes than were counted")


def _messages(apart: bool) -> list[tuple[str, ...]]:
    return [("send",), ("recv",)] if apart else [MESSAGES]


def _of(calls: Sequence[tuple[str, int]], kinds: Sequence[str]) -> list[tuple[str, int]]:
    return [call for call in calls if call[0] in kinds]


def _collectives(calls: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The collectives as gloo carries them out; a barrier has no bytes and is in no step."""
    return [
        (_as_gloo(kind), nbytes) for kind, nbytes in calls if kind not in (*MESSAGES, "barrier")
    ]


def call_of(op: Op) -> tuple[str, int] | None:
    if isinstance(op, Collective):
        return op.kind, op.nbytes
    if isinstance(op, Send | Recv):
        return ("send" if isinstance(op, Send) else "recv"), op.nbytes
    return None


def _as_gloo(kind: str) -> str:
    return "all_reduce" if kind in ("reduce_scatter", "_reduce_scatter_base") else kind


def own_train(row: Row, home: Path) -> Row:
    """Our own training: its calls and bytes alone.

    It has no optimizer that PyTorch knows of, so all of it is one step, preparation included.
    """
    recorded = home / "run"
    if not (recorded / "run.json").exists():
        run("record", "--ranks", "2", "--out", str(recorded), str(JOBS / "own_train.py"),
            "--leave", str(home / "counted"))  # fmt: skip
    compare_calls(row, recorded, [counted_in(home / "counted" / f"{rank}.json") for rank in (0, 1)])
    return row


def run(*words: str) -> Mapping[str, Any]:
    """What a verb tells in JSON."""
    told = process(sys.executable, "-m", "steptime", *words)
    return dict(json.loads(told)) if "--json" in words else {}


def process(*command: str) -> str:
    """What a command prints; the end of this program where it fails."""
    environ = {**os.environ, "TORCH_FR_BUFFER_SIZE": "100000", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FOREVER_S, check=False, env=environ
    )
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} failed: {done.stderr[-2000:]}")
    print(".", end="", file=sys.stderr, flush=True)
    return done.stdout


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A line a job, and the medians."""
    columns = f"{'given':>10}{'measured':>10}{'predicted':>11}{'error':>8}{'replayed':>10}  calls"
    yield f"{'':<20}{columns}"
    timed = [row for row in rows if row.plain_s]
    for row in (row for row in rows if not row.plain_s):
        yield f"{row.case.job:<61}{'; '.join(row.wrong) or 'calls as counted'}"
    for row in timed:
        error = row.predicted_s / row.plain_s - 1
        yield (
            f"{row.case.job:<20}{row.recorded_s:>9.4f}s{row.plain_s:>9.4f}s"
            f"{row.predicted_s:>10.4f}s{error:>+8.1%}{row.replayed_s:>9.4f}s  "
            f"{'; '.join(row.wrong) or 'as counted'}"
        )
    plain = [row.predicted_s / row.plain_s - 1 for row in timed]
    yield from summed("predicted against the job", plain, 0.10)
    given = [row.predicted_s / row.recorded_s - 1 for row in timed]
    yield from summed("predicted against its recording", given, 0.10)
    yield f"{'':<20}{'what if':<18}{'measured':>10}{'predicted':>11}{'error':>8}{'the change':>18}"
    changed = [row for row in rows if row.case.what]
    errors = []
    for row in changed:
        errors.append(row.changed_predicted_s / row.changed_s - 1)
        yield (
            f"{row.case.job:<20}{row.case.what:<18}{row.changed_s:>9.4f}s"
            f"{row.changed_predicted_s:>10.4f}s{errors[-1]:>+8.1%}"
            f"{row.changed_s / row.plain_s - 1:>+8.1%} for "
            f"{row.changed_predicted_s / row.predicted_s - 1:>+6.1%}"
        )
    yield from summed("what if", errors, 0.15)


def summed(what: str, errors: Sequence[float], bar: float) -> Iterator[str]:
    """The median error of some predictions, and how many are within the bar."""
    sizes = [abs(error) for error in errors]
    if sizes:
        yield (
            f"{what}: median error {statistics.median(sizes):.1%} of {len(sizes)}, "
            f"{sum(size <= bar for size in sizes)} within {bar:.0%}, worst {max(sizes):.1%}"
        )


if __name__ == "__main__":
    sys.exit(main())
