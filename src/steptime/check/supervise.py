"""The processes of a job that check starts: started, given signals, ended with their children."""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from types import FrameType

from steptime.check.ends import note_end
from steptime.check.finding import Finding
from steptime.check.watch import Watch
from steptime.errors import shell_status

_LOOKS_EVERY_S = 0.25
_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""

_ENDED_BY_CHECK = "ended-by-check"
"""The file by which the watch tells those that supervise other ranks to end theirs."""

_TOLD = "told"
"""The file by which the process that tells a job says that it has."""

_TELLS_WITHIN_S = 30.0
"""So long others wait for it: judging and printing take a second, on a busy machine ten."""

_PR_SET_PDEATHSIG = 1
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its exit code as a shell has it, and what stood for certain.

    ``code``: that of the rank that failed first; 0 where none did, None where check ended them all.
    ``by_check``: it was ended for what was found.
    """

    code: int | None
    findings: Sequence[Finding]
    by_check: bool


@dataclass(eq=False)
class Child:
    """A rank's process."""

    rank: int
    process: subprocess.Popen[bytes]
    stopped: bool = False
    """Whether a signal was passed on to it, so that its end tells nothing of it."""

    ended_at: float = 0.0
    """When it was seen to have ended, by the monotonic clock; 0: not yet."""

    @property
    def noted(self) -> bool:
        """Whether its end was written down."""
        return self.ended_at > 0

    def send(self, number: int) -> None:
        """Send a signal to it and to the processes that it started."""
        self.stopped = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def supervise(
    command: Sequence[str],
    environs: Mapping[int, Mapping[str, str]],
    folder: Path,
    watch: Watch | None,
) -> Outcome:
    """Run a command as ranks, each with its environment, until all have ended.

    They end with the first that fails, after a grace, and when ``watch`` is certain that the job
    stands still. Without a watch, or on several hosts, another process may be, which tells by a
    file. Each rank has its own session, so that what it starts can be ended with it, and ends with
    this process.
    """
    children: list[Child] = []
    with _signals_to(children):
        for rank, environ in environs.items():
            children.append(Child(rank, _start(command, environ)))
        return _follow(children, folder, watch)


def _follow(children: Sequence[Child], folder: Path, watch: Watch | None) -> Outcome:
    ranks = {child.process.pid: child.rank for child in children}
    begun = time.time()
    failed_at: float | None = None
    while True:
        for child in children:
            _note(child, folder)
        failed = any(child.process.returncode for child in children)
        failed_at = failed_at or (time.monotonic() if failed else None)
        over = all(child.noted for child in children)
        findings = watch.look(ranks) if watch else []
        late = failed_at is not None and time.monotonic() - failed_at > 3 * _GRACE_S
        told = (watch is None or watch.has_others) and _told_to_end(folder, begun)
        if findings and watch:
            _tell_to_end(folder)
        if findings or told or (late and not over):
            by_check = bool(findings or told)
            _end(children, folder)
            return Outcome(_code(children, by_check), findings, by_check)
        if over and not (watch and watch.lives and not late):
            return Outcome(_code(children, by_check=False), [], by_check=False)
        time.sleep(_LOOKS_EVERY_S)


def _start(command: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        command,
        env=dict(environ),
        start_new_session=True,
        preexec_fn=end_with_parent,
    )


def _note(child: Child, folder: Path) -> None:
    code = child.process.poll()
    if code is None or child.noted:
        return
    child.ended_at = time.monotonic()
    told = None if child.stopped and code else code
    note_end(folder, child.process.pid, told, time.time_ns(), child.rank)


def _end(children: Sequence[Child], folder: Path) -> None:
    """End all that run, with what they started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        running = [child for child in children if child.process.poll() is None]
        for child in running:
            child.send(number)
        until = time.monotonic() + _GRACE_S
        for child in running:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.01, until - time.monotonic()))
    for child in children:
        _note(child, folder)


def _code(children: Sequence[Child], by_check: bool) -> int | None:
    failed = [child for child in children if child.process.returncode]
    of_itself = [child for child in failed if not (by_check and child.stopped)]
    first = min(of_itself, key=lambda child: child.ended_at, default=None)
    if first is None:
        return None if failed else 0
    return shell_status(first.process.returncode)


def _tell_to_end(folder: Path) -> None:
    with suppress(OSError):
        (folder / _ENDED_BY_CHECK).touch()


def _told_to_end(folder: Path, begun: float) -> bool:
    return _touched_since(folder / _ENDED_BY_CHECK, begun)


def note_told(folder: Path) -> None:
    """Say that a job's end was told, so that the processes of its other ranks may end."""
    with suppress(OSError):
        (folder / _TOLD).touch()


def await_told(folder: Path, begun: float) -> None:
    """Wait until a job's end was told, at most half a minute. ``begun``: when this one began.

    A launcher ends all ranks with the first that fails, also the one that has yet to tell why.
    """
    until = time.monotonic() + _TELLS_WITHIN_S
    while not _touched_since(folder / _TOLD, begun) and time.monotonic() < until:
        time.sleep(_LOOKS_EVERY_S)


def _touched_since(file: Path, begun: float) -> bool:
    """Whether it is of this job; a folder may still hold that of the one before."""
    with suppress(OSError):
        return file.stat().st_mtime >= begun - 1
    return False


@contextmanager
def _signals_to(children: Sequence[Child]) -> Iterator[None]:
    """Pass on to all children what stops this process; nothing in another thread than the main.

    A rank that is blocked in C++ heeds no SIGINT, so the second is passed on as SIGTERM, and those
    after it as SIGKILL.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts = chain((signal.SIGINT, signal.SIGTERM), repeat(signal.SIGKILL))

    def pass_on(number: int, _: FrameType | None) -> None:
        sent = next(interrupts) if number == signal.SIGINT else number
        for child in children:
            if child.process.poll() is None:
                child.send(sent)

    heeded = [number for number in _STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
