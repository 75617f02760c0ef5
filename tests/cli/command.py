"""The command as its users run it: a process of its own, with a deadline, that leaves nothing.

And in this process, for what does not depend on that: a verb that starts no ranks.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from shutil import which
from typing import Any
from unittest.mock import patch

from steptime.cli import main

BINARIES = Path(sys.executable).parent
STEPTIME = str(BINARIES / "steptime")
TORCHRUN = (str(BINARIES / "torchrun"), "--nproc-per-node=2")
MPIEXEC = which("mpiexec", path=f"{BINARIES}:{os.environ['PATH']}") or ""
FILES = ["program.json.gz", "report.html", "run.json", "trace.json.gz"]
MARKER = "STEPTIME_TEST"
HANG_S = 600
"""What no command takes, however busy the machine."""
NOT_INHERITED = ("NO_COLOR", "COLUMNS", "TIKTOKEN_CACHE_DIR")
TINY = {"layers": 1, "heads": 2, "hidden": 32, "tokens": 32, "batch": 4, "steps": 2}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out, parse_constant=_refuse)


@dataclass(frozen=True)
class Running:
    """A command under way."""

    process: subprocess.Popen[str]
    marker: str

    def pids(self) -> list[int]:
        """The processes that live of all that it started, itself included."""
        return list(_processes(self.marker))

    def pid_of_rank(self, rank: int) -> int:
        """The process of a rank, once there is one."""
        return within(HANG_S, lambda: [pid for pid in self.pids() if _name(pid) == f"rank {rank}"])[
            0
        ]

    def end(self, timeout: float = HANG_S) -> Ended:
        """Wait for its end, which must leave no process behind."""
        start = time.monotonic()
        out, err = self.process.communicate(timeout=timeout)
        seconds = time.monotonic() - start
        within(HANG_S, lambda: not self.pids())
        return Ended(self.process.returncode, out, err, seconds)


@contextmanager
def started(
    *words: str,
    folder: Path,
    launcher: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    **popen: Any,
) -> Iterator[Running]:
    """The command under way in ``folder``; whatever of it is left at the end of the block dies."""
    marker = str(uuid.uuid4())
    kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        [*launcher, STEPTIME, *words],
        cwd=folder,
        env=kept | dict(environ or {}) | {MARKER: marker},
        stdin=subprocess.DEVNULL,
        text=True,
        **(pipes | popen),
    )
    running = Running(process, marker)
    try:
        yield running
    finally:
        for pid in running.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with process:
            process.kill()


def run(*words: str, timeout: float = HANG_S, **where: Any) -> Ended:
    """Run the command to its end; it must leave no process behind."""
    with started(*words, **where) as running:
        return running.end(timeout)


def here(*words: str, folder: Path, columns: int = 80) -> Ended:
    """Run the command in this process, for so many columns, on what is no terminal."""
    out, err = StringIO(), StringIO()
    environ = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    start = time.monotonic()
    with (
        chdir(folder),
        patch.dict(os.environ, environ | {"COLUMNS": str(columns)}, clear=True),
        patch.object(sys, "argv", ["steptime", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main()
    return Ended(code, out.getvalue(), err.getvalue(), time.monotonic() - start)


def options(**given: object) -> list[str]:
    """``lr_warmup=3, json=True`` as ``--lr-warmup 3 --json``; None leaves one out."""
    words = []
    for name, value in given.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def tiny(text: Path, **given: object) -> list[str]:
    """The options of a training that takes milliseconds, with others added or in their place."""
    return options(**(TINY | {"data": text} | given))


def within(seconds: float, look: Callable[[], Any]) -> Any:
    """What ``look`` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


def _processes(marker: str) -> Iterator[int]:
    """Living processes (a zombie has no environment) with the marker."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARKER}={marker}" in path.read_bytes().decode(errors="replace").split("\0"):
                yield int(path.parent.name)


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
