"""PyTorch's own tests of torch.distributed on the backend steptime, beside gloo.

    python benchmarks/pytorch_tests.py DIR [--only WORD] [--record FILE] [--limit 120]

DIR is the folder ``test`` of PyTorch's source, of the installed torch's version if it is to be had:
``git clone --depth 1 --branch v2.13.0``, or Debian's ``apt-get source pytorch``. The tests run as
they are, on gloo. Those that make a group there and pass run again where torch.distributed makes a
group of steptime when it is asked for gloo (in_place_of_gloo.py): so the table shows what steptime
breaks, not what torch's tests ask of a machine. A test that hangs for --limit seconds has failed.

One test runs at a time. What came of each is kept in --record, and a run that was broken off goes
on from there: remove the file to judge another revision. Needs pytest and expecttest.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from in_place_of_gloo import BACKEND, GROUPS, OURS, RECORD, RIVAL, note, outcomes

FILES = (
    "test_distributed_spawn.py",  # DistributedTest, which comes with the wheel of torch
    "test_functional_api.py",
    "test_c10d_*.py",
    "test_device_mesh.py",
    "test_collective_utils.py",
    "test_backends.py",
    "optim/test_*.py",
    "*tensor/test_*.py",
    "tensor/parallel/test_*.py",
    "*tensor/debug/test_*.py",
    "*tensor/experimental/test_*.py",
    "checkpoint/**/test_*.py",
    "pipelining/test_*.py",
    "algorithms/**/test_*.py",
    "_composable/**/test_*.py",
)
_BY_THEIR_CLASS = ("nccl", "ucc", "gloo", "mpi", "xla", "pypg")  # tests of other groups
_GRACE_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tests", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path, default=Path("runs/pytorch_tests.jsonl"))
    parser.add_argument("--limit", type=float, default=120.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and what runs is ended too
    options.record.parent.mkdir(parents=True, exist_ok=True)
    record = options.record.resolve()
    folder = options.tests.resolve() / "distributed"
    found = [path for pattern in FILES for path in sorted(folder.glob(pattern))]
    files = [
        path.relative_to(folder)
        for path in dict.fromkeys(found)
        if options.only in str(path) and not any(word in path.name for word in _BY_THEIR_CLASS)
    ]
    if not files:
        parser.error(f"no tests of PyTorch are in {folder}: give the folder test of its source")
    with tempfile.TemporaryDirectory() as scratch:
        for file in files:
            judge(folder, file, RIVAL, record, options.limit, Path(scratch))
            if counts([file], record)[RIVAL]["passed"]:
                judge(folder, file, OURS, record, options.limit, Path(scratch))
            print(row(str(file), counts([file], record)), file=sys.stderr, flush=True)
    print("\n".join(summary(files, record)))


def judge(
    folder: Path, file: Path, backend: str, record: Path, limit: float, scratch: Path
) -> None:
    """Run what is not judged yet of one file; a process that dies or hangs costs one test."""
    environ = environment(backend, record, limit, scratch)
    # torch runs a file as a script, so what lies beside it is found.
    environ["PYTHONPATH"] += f"{os.pathsep}{(folder / file).parent}"
    command = [sys.executable, "-m", "pytest", str(file), "-q", "-p", "in_place_of_gloo"]
    command += [
        "--noconftest",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
    ]
    os.environ.update({BACKEND: backend, RECORD: str(record)})
    while True:
        with (scratch / "output").open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        code = waited(process, record, limit + _GRACE_S)
        unfinished = [
            test
            for (of, test), entry in outcomes(record).items()
            if of == backend and entry["outcome"] == "started"
        ]
        for test in unfinished:
            note(test, "failed", why=f"the process ended ({code}) or hung")
        if not unfinished:
            if code not in (0, 1, 5):  # 5: nothing to run
                last = (scratch / "output").read_text().strip().splitlines()[-1:]
                said = "".join(last)
                print(f"{file} on {backend}: pytest ended with {code}: {said}", file=sys.stderr)
            return


def waited(process: "subprocess.Popen[bytes]", record: Path, limit: float) -> int:
    """The exit code; a process that writes nothing to the record for ``limit`` s is killed."""
    begun = time.time()
    try:
        while process.poll() is None:
            time.sleep(0.2)
            last = record.stat().st_mtime if record.exists() else begun
            if time.time() - max(begun, last) > limit:
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its ranks too, should any be left
    return process.wait()


def environment(backend: str, record: Path, limit: float, scratch: Path) -> dict[str, str]:
    """The variables of a run: what torch's own runner sets, and torch's way to our module."""
    here = Path(__file__).resolve().parent
    entry = scratch / "in_place_of_gloo-1.dist-info"
    entry.mkdir(exist_ok=True)
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: in_place_of_gloo\nVersion: 1\n")
    (entry / "entry_points.txt").write_text(
        "[torch.backends]\nin_place_of_gloo = in_place_of_gloo:answer_for_gloo\n"
    )
    paths = [str(scratch), str(here), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        BACKEND: backend,
        RECORD: str(record),
        GROUPS: str(scratch / "groups"),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": str(scratch),
        "TEMP_DIR": str(scratch),
        "BACKEND": RIVAL,
        "WORLD_SIZE": "3",
        "OMP_NUM_THREADS": "1",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(int(limit)),
    }


def counts(files: Sequence[Path], record: Path) -> dict[str, Counter[str]]:
    """For each backend, the tests of some files by outcome."""
    names = {str(file) for file in files}
    found: dict[str, Counter[str]] = {RIVAL: Counter(), OURS: Counter()}
    for (backend, test), entry in outcomes(record).items():
        if test.partition("::")[0] in names:
            found[backend][entry["outcome"]] += 1
    return found


def row(name: str, found: dict[str, Counter[str]]) -> str:
    ours = found[OURS]
    return f"{name:55} {found[RIVAL]['passed']:5} {ours['passed']:9} {ours['failed']:7}"


def summary(files: Sequence[Path], record: Path) -> list[str]:
    """The table of the files in which gloo passes a test, and what fails on ours alone."""
    each = {file: counts([file], record) for file in files}
    total = counts(files, record)
    lines = [f"{'passed on':55} {RIVAL:>5} {OURS:>9}  failed"]
    lines += [row(str(file), found) for file, found in each.items() if found[RIVAL]["passed"]]
    lines.append(row("all", total))
    rest = ", ".join(f"{total[RIVAL][of]} {of}" for of in ("skipped", "idle", "failed"))
    lines.append(f"others on gloo: {rest} (idle: passed without making a group)")
    for (backend, test), entry in outcomes(record).items():
        if backend == OURS and entry["outcome"] == "failed" and Path(test.split("::")[0]) in each:
            lines += [test.replace("::", "\n  ", 1), f"    {entry['why']}"]
    return lines


if __name__ == "__main__":
    main()
