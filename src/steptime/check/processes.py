"""The processes of a job while it runs: how far each has written, whether it lives, its stacks.

All is read from outside: a rank that hangs need not help, and none is slowed.
"""

import math
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from steptime.check.stacks import SIGNAL, STACKS
from steptime.record.events import EVENTS
from steptime.record.rows import EVENT

_TAIL = 64
"""So many of the last events of a process are looked at to see whether it stands still."""

STILL_S = 1.0
"""A rank that has written nothing for so long stands still, and its job is judged."""

_REST_S, _RESTING = 5.0, 0.05
"""Who uses so little of a processor for so long does nothing: threads that look for others' calls
use some of it, and who reads a file or a socket more."""

_SENT_S, _FEW_BYTES = 10.0, 2**16
"""Who has sent no more for so long sends nothing: it answers the watch by some of it."""

_SILENT_S = 2.0
"""A process whose thread has not answered for so long runs no Python: a signal may ask it."""


@dataclass(eq=False)
class Process:
    """A process that writes a log on this host or, where ``here`` is false, on another."""

    file: Path
    pid: int
    here: bool
    written: int = 0
    """How many events it has written."""

    last: bytes = b""
    """The last of them, as they stood when they were looked at."""

    still_since: float = 0.0
    """When it was first seen to stand as it does, by the watch's clock."""

    gone_since: float = 0.0
    """When it was first seen to have ended, by the watch's clock; 0: not yet."""

    cpu_ticks: int = 0
    idle: bool = False
    rests: bool = False
    """Whether it and the processes that it started have hardly used a processor for a while."""

    unmoved: bool = False
    """Whether it has stood still for a while and sent nothing, whatever its threads look for."""

    sent: int = 0
    sent_at: float = 0.0
    seen_at: float = -math.inf
    """How many bytes it had written to files and sockets when it last wrote many, when that was,
    and when it was looked at last."""

    used: deque[tuple[float, int]] = field(default_factory=deque)
    """What they all had used by when, since the beginning of that while."""

    asked_at: int = field(default=-1)
    """From where in its file of stacks the answer to the last question stands; -1: not asked."""

    asked_since: float = 0.0
    """When it was asked, by the watch's clock; infinite once it was asked by the signal, too."""

    answered: str = ""
    """Its answer to the question before, which holds until it answers anew."""

    def look(self, now: float) -> None:
        """See whether it has written anything new, and used a processor."""
        with suppress(OSError), self.file.open("rb") as file:
            self.written = _written(file.fileno(), self.written)
            size = EVENT.itemsize
            first = max(0, self.written - _TAIL)
            last = os.pread(file.fileno(), (self.written - first) * size, first * size)
            if last != self.last or not self.still_since:
                self.last, self.still_since, self.asked_at, self.answered = last, now, -1, ""
        ticks = _cpu_ticks(self.pid) if self.here else 0
        # Who wants a processor and gets none is not idle: others are busy.
        self.idle = ticks - self.cpu_ticks <= 1 and not (self.here and _wants_to_run(self.pid))
        self.cpu_ticks = ticks
        self._see_rest(now)
        if self.here:
            self._see_sent(now)
        if not self.gone_since and not self.lives:
            self.gone_since = now

    def _see_rest(self, now: float) -> None:
        # Of who does not stand still nobody asks, and what it has started is in many files.
        if not self.here or now - self.still_since < STILL_S:
            self.rests = False
            self.used.clear()
            return
        self.used.append((now, self.cpu_ticks + _ticks_of_started(self.pid)))
        while len(self.used) > 1 and self.used[1][0] <= now - _REST_S:
            self.used.popleft()
        (since, before), (_, used) = self.used[0], self.used[-1]
        most = _RESTING * (now - since) * os.sysconf("SC_CLK_TCK")
        self.rests = self.idle and since <= now - _REST_S and used - before <= most

    def _see_sent(self, now: float) -> None:
        # While the watch stood still all of the job may have; and who is paused sends nothing.
        paused = now - self.seen_at > _SENT_S / 2 or _state(self.pid) == "T"
        sent = _bytes_sent(self.pid)
        if paused or sent - self.sent > _FEW_BYTES:
            self.sent, self.sent_at = sent, now
        self.seen_at = now
        self.unmoved = max(self.still_since, self.sent_at) <= now - _SENT_S

    @property
    def lives(self) -> bool:
        """Whether it has not ended; of one on another host that is not known."""
        return not self.here or _state(self.pid) not in ("", "Z", "X")

    def ask(self, now: float) -> None:
        """Ask for its stacks: its thread first and, where that is silent, by the signal.

        Never by the signal alone: that is for a process that runs no Python.
        """
        if not self.here:
            return
        if self.asked_at < 0:
            with suppress(OSError, ValueError):  # it may be about to begin that file
                number, name = _first_words(self._stacks)
                self.asked_at, self.asked_since = self._stacks.stat().st_size, now
                _wake(f"/proc/{self.pid}/fd/{number}", name)
        elif now - self.asked_since >= _SILENT_S and self.may_answer:
            self.asked_since = math.inf
            if _handles(self.pid, SIGNAL):  # the signal ends who does not
                with suppress(OSError):
                    os.kill(self.pid, SIGNAL)

    def ask_anew(self, now: float) -> None:
        """Ask its thread again: it writes nothing down, and may have gone on all the same."""
        self.answered, self.asked_at = self.answer(), -1
        self.ask(now)

    def answer(self) -> str:
        """Its stacks as it has written them since it was asked, else those of its last answer."""
        return self._new_answer() or self.answered

    def _new_answer(self) -> str:
        if self.asked_at < 0:
            return ""
        with suppress(OSError), self._stacks.open("rb") as file:
            file.seek(self.asked_at)
            return file.read(1 << 20).decode(errors="replace")
        return ""

    @property
    def answers(self) -> bool:
        """Whether it has answered the last question."""
        return bool(self._new_answer())

    @property
    def may_answer(self) -> bool:
        """Whether it was asked, has not answered, and is yet to be asked by the signal."""
        return self.asked_at >= 0 and self.asked_since < math.inf and not self.answer()

    @property
    def _stacks(self) -> Path:
        return self.file.with_suffix(STACKS)


def processes_in(folder: Path, host: str, known: Mapping[Path, Process]) -> dict[Path, Process]:
    """The processes that write logs into a folder, those that are known among them."""
    found = dict(known)
    for file in folder.glob(f"*{EVENTS}"):
        if file not in found:
            where, _, pid = file.stem.rpartition("-")
            found[file] = Process(file, int(pid), here=where == host)
    return found


def _written(descriptor: int, at_least: int) -> int:
    """How many events a file holds: its end is empty, and no event is."""
    size = EVENT.itemsize
    room = os.fstat(descriptor).st_size // size

    def is_there(number: int) -> bool:
        return os.pread(descriptor, 1, number * size) not in (b"", b"\0")

    step = 1
    while at_least + step - 1 < room and is_there(at_least + step - 1):
        at_least, step = at_least + step, 2 * step
    low, high = at_least, min(room, at_least + step - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_there(middle) else (low, middle)
    return low


def _first_words(file: Path) -> list[str]:
    with file.open(errors="replace") as opened:
        return opened.readline().split()


def _wake(pipe: str, name: str) -> None:
    """Wake the thread that waits at a process's pipe; OSError where it cannot be reached."""
    if str(Path(pipe).readlink()) != name:
        return  # the process has closed it, and opened another file in its place
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(descriptor, b"?")
    finally:
        os.close(descriptor)


def _wants_to_run(pid: int) -> bool:
    """Whether a thread of a process runs, waits for a processor or was paused from outside."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return any(_stat(file)[:1] not in ([], ["S"], ["I"], ["Z"], ["X"]) for file in threads)


def _stat(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text().rpartition(")")[2].split()
    return []


def _state(pid: int) -> str:
    return next(iter(_stat(Path(f"/proc/{pid}/stat"))), "")


def _cpu_ticks(pid: int) -> int:
    found = _stat(Path(f"/proc/{pid}/stat"))
    return int(found[11]) + int(found[12]) if found else 0


def _bytes_sent(pid: int) -> int:
    """What a process has written, by write and its kin: gloo's threads send so."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("wchar:"):
                return int(line.split()[1])
    return 0


def _ticks_of_started(pid: int) -> int:
    """What all processes have used of processors that a process has started, and those of these."""
    found = _stat(Path(f"/proc/{pid}/stat"))
    ended = int(found[13]) + int(found[14]) if found else 0
    return ended + sum(_cpu_ticks(one) + _ticks_of_started(one) for one in _started(pid))


def _started(pid: int) -> list[int]:
    started: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            started += map(int, file.read_text().split())
    return started


def _handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
