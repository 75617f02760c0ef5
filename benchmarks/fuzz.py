"""Throw nasty arguments and broken files at every verb, and tell what does not end as it must.

    python benchmarks/fuzz.py [--seconds 120] [--cases N] [--seed S] [--only arguments|files]

A case is a command in a folder of its own, forked from this process, which has everything imported,
with a limit on its memory and on its time. The seed that is printed gives the same cases again, and
``--first K`` starts at case K. It is a fault when a command

- prints a traceback, or calls what went wrong a mistake of steptime;
- ends with another exit code than 0, 1, 2, 130 or 141, or by a signal;
- says more than one sentence of what cannot be done (exit code 2), or none;
- prints under ``--json`` what is not one object of JSON, as NaN is not, or leaves such a run.json;
- leaves a process, or a folder with nothing in it where it failed;
- does not end within the time limit, or takes more memory than the limit.

Exit code 1 where there was one, with the faults by kind.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz_arguments import argument_case
from fuzz_files import Case, file_case, make_samples

from steptime.cli import main as steptime
from steptime.cli import with_script_apart

LEAVES_WITHIN_S = 30.0
CODES = {0, 1, 2, 130, 141}
MEMORY = 4 << 30  # beyond what the imports hold
SHOWN = 400  # characters of a fault
KINDS = {"arguments": argument_case, "files": file_case}
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Ended:
    """How a case ended: ``status`` as waitpid has it, None where it had to be killed."""

    status: int | None
    out: str
    err: str
    left: bool
    """Whether a process of it was left."""


def run(case: Case, folder: Path, limit_s: float) -> Ended:
    """Run a case in ``folder``, in a process of a session of its own."""
    child = os.fork()
    if not child:
        be(case, folder)
    descriptor = os.pidfd_open(child)
    deadline = time.monotonic() + limit_s
    status: int | None = None
    while status is None and time.monotonic() < deadline:
        done, found = os.waitpid(child, os.WNOHANG)
        if done:
            status = found
        else:
            time.sleep(0.005)
    os.close(descriptor)
    left = status is not None
    end = time.monotonic() + LEAVES_WITHIN_S
    while left and (left := bool(of_session(child))) and time.monotonic() < end:
        time.sleep(0.05)  # helpers of Python's own end once their parent is gone
    for process in {*of_session(child), *([child] if status is None else [])}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG if status is not None else 0)[0]:
            pass
    out, err = ((folder.parent / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return Ended(status, out, err, left)


def be(case: Case, folder: Path) -> None:
    """Be the process of a case; does not return."""
    os.setsid()
    os.chdir(folder)
    for number, name in ((0, os.devnull), (1, "../stdout"), (2, "../stderr")):
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
        os.dup2(os.open(name, flags, 0o644), number)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder.parent / "tmp")
    sys.argv = ["steptime", *case.words]
    try:
        code = steptime()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 255)


def of_session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def faults(case: Case, ended: Ended, folder: Path) -> Iterator[tuple[str, str]]:
    """The kinds of the faults of a case, each with what shows it."""
    if ended.status is None:
        yield "does not end", ""
        return
    if os.WIFSIGNALED(ended.status):
        yield "ended by a signal", signal.Signals(os.WTERMSIG(ended.status)).name
        return
    code = os.WEXITSTATUS(ended.status)
    lines = [line for line in ended.err.splitlines() if line.startswith("steptime: ")]
    if code not in CODES:
        yield "exit code", str(code)
    if "Traceback" in ended.err:
        yield "traceback", ended.err[-SHOWN:]
    if "mistake in steptime" in ended.err:
        details = "".join(path.read_text() for path in (folder.parent / "tmp").glob("*mistake*"))
        yield "a mistake", ended.err[-SHOWN:] + details[-SHOWN * 4 :]
    if code == 2 and len(lines) != 1:
        yield "not one sentence", ended.err[-SHOWN:]
    if "Available commands" in ended.err or "Exception ignored" in ended.err:
        yield "a wrong message", ended.err[-SHOWN:]
    if (
        "--json" in options_of(case)
        and not {"--help", "-h", "--version"} & set(case.words)
        and code != 141
    ):
        yield from no_json(ended.out, "stdout")
    for path in folder.glob("**/run.json") if code == 0 else ():
        new = path.is_file() and not path.is_symlink() and path.stat().st_mtime > case.made
        if new and str(path.relative_to(folder)) not in case.words:
            yield from no_json(path.read_text(errors="replace"), path.name)
    if ended.left:
        yield "a process is left", ""
    if code:
        empty = [p for p in folder.glob("**/*") if p.is_dir() and not any(p.iterdir())]
        if empty and not case.has_empty:
            yield "an empty folder is left", str(empty[0])


def options_of(case: Case) -> list[str]:
    """The words of a case in which options may stand: those before a script or a lone ``--``."""
    words = with_script_apart(list(case.words))
    return words[: words.index("--")] if "--" in words else words


def no_json(text: str, where: str) -> Iterator[tuple[str, str]]:
    """A fault where a text is not one object of JSON."""
    try:
        found = json.loads(text, parse_constant=float)
        if not isinstance(found, dict):
            raise TypeError("no object")
        json.dumps(found, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        yield "no JSON", f"{where}: {error}: {text[:SHOWN]}"


def warm(folder: Path) -> Path:
    """Import what verbs import, compile what they compile, and make the files to break."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans come to this process
    samples = folder / "samples"
    samples.mkdir()
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    make_samples(samples)
    return samples


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a case")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main() -> int:
    asked = options()
    print(f"seed {asked.seed}", flush=True)
    found: Counter[str] = Counter()
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="steptime-fuzz-") as temporary:
        samples = warm(Path(temporary))
        end = time.monotonic() + asked.seconds
        number = asked.first
        while time.monotonic() < end and (
            asked.cases is None or number - asked.first < asked.cases
        ):
            kind = asked.only or list(KINDS)[number % len(KINDS)]
            place = Path(temporary) / "case"
            (place / "tmp").mkdir(parents=True)
            shutil.copytree(samples, place / "here", symlinks=True)
            pick = random.Random(f"{asked.seed} {number}")  # noqa: S311 - no secret
            case = KINDS[kind](pick, place / "here")
            if asked.verbose:
                print(number, case, flush=True)
            ended = run(case, place / "here", asked.limit)
            for what, shown in faults(case, ended, place / "here"):
                found[f"{kind}: {what}"] += 1
                print(f"\nFAULT in case {number} ({what}): {case}\n{shown}", flush=True)
            done[kind] += 1
            if not case.has_empty and ended.status is not None:
                done[f"exit {os.waitstatus_to_exitcode(ended.status)}"] += 1
            shutil.rmtree(place)
            number += 1
            if sum(done[kind] for kind in KINDS) % 500 == 0:
                print(f"{number} cases until now, faults: {dict(found) or 'none'}", flush=True)
    print(f"\n{sum(done[kind] for kind in KINDS)} cases:", dict(done))
    print("faults:", dict(found) or "none")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
