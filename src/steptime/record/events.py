"""Events: what a process writes down while a script runs, 80 bytes each, in a file that is mapped.

The kernel keeps the pages of a mapped file when the process is killed, so what was written is there
whatever ends it, and another process can read it while this one hangs. What has no fixed size (the
places in the code, the groups, the shapes, who wrote it) stands once, as lines of JSON, in a file
beside it.
"""

import json
import os
import socket
import sys
import threading
import time
from enum import IntEnum
from io import RawIOBase
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from steptime.record.rows import EVENT, rows

ASYNC = 1
_CHUNK = 1 << 14
_READINGS = 5
MOST_EVENTS = 1 << 24
"""So many are kept, 1.3 GB of them; what comes later is counted alone."""

EVENTS, NOTES, OPERATORS, DEVICE = ".events", ".notes", ".operators", ".device"
"""How the files of a process end; the last two are there where operators were profiled, and where
a GPU was used."""


def both_clocks() -> tuple[int, int]:
    """The clock that events are timed by, and the host's wall clock, at one moment, in nanoseconds.

    A process may lose its core between the two for milliseconds, by which its events would lie
    beside those of others. Of some readings that counts which took the least time.
    """
    readings = []
    for _ in range(_READINGS):
        before = time.perf_counter_ns()
        wall = time.time_ns()
        after = time.perf_counter_ns()
        readings.append((after - before, (before + after) // 2, wall))
    _, clock, wall = min(readings)
    return clock, wall


class Kind(IntEnum):
    """What an event is: a call of c10d, a wait that belongs to none, or a part of the step."""

    CALL = 1
    WAIT = 2
    BACKWARD = 3
    OPTIMIZER = 4
    DATA = 5
    STEP = 6
    """The end of a step, as ``steptime.step`` has it."""


class Time(IntEnum):
    """Which of an event's times, in their order in EVENT."""

    ISSUED = 0
    RETURNED = 1
    ENDED = 2
    WAIT_BEGIN = 3
    WAIT_END = 4


TIMES = ("issued", "returned", "ended", "wait_begin", "wait_end")
"""Their names there."""

MARK = np.dtype(
    [
        ("event", np.uint32),  # which of the log's events, from 0
        ("time", np.uint8),  # a Time
        ("stream", np.uint64),  # of the GPU, by its address; 0: the default one
        ("at", np.int64),  # when the GPU came there, in nanoseconds of perf_counter
    ]
)
"""When a GPU came to where the script was at one of an event's times; without gaps in the file."""


WITHIN_STEP = -1
"""The peer of what an optimizer does before it asks for gradients again, and its step goes on.

Else the peer of an optimizer's event is its number: which of the script's first stepped first.
"""


class Log:
    """The two files of this process, open for writing: ``rows`` go into one, notes into the other.

    Every method may be called from any thread. ``sites``: the numbers of places in the code, by the
    identity of their code and the line, and those of the package's line where there is one.
    """

    def __init__(self, folder: Path) -> None:
        """Make the files in a folder; OSError where that cannot be."""
        self._folder = folder
        self.sites: dict[tuple[int, ...], int] = {}
        self.rows = rows(self._grow)
        self.begin()

    def begin(self, forked_from: int | None = None) -> None:
        """Begin with files of this very process, as a child must, ``forked_from`` another one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.path = self._folder / f"{socket.gethostname()}-{os.getpid()}{EVENTS}"
        self._file = self.path.open("w+b")
        self._notes = self.path.with_suffix(NOTES).open("wb", buffering=0)
        self.operators_file = self.path.with_suffix(OPERATORS)
        self._room = _CHUNK
        self._file.truncate(self._room * EVENT.itemsize)
        self.rows.begin(self._file.fileno(), self._room)
        self.sites.clear()
        self._codes: list[CodeType] = []
        self._number_of_signatures = 0
        self._lock = threading.Lock()
        clock_ns, wall_ns = both_clocks()
        self.note(
            host=socket.gethostname(),
            pid=os.getpid(),
            command=sys.argv,
            clock_ns=clock_ns,
            wall_ns=wall_ns,
            forked_from=forked_from,
        )

    def marks(self) -> RawIOBase:
        """The file of what a GPU came to, opened anew."""
        return self.path.with_suffix(DEVICE).open("wb", buffering=0)

    def note(self, **facts: Any) -> None:
        """Write a line to the file beside."""
        self._notes.write(json.dumps(facts).encode() + b"\n")

    def site(self, code: CodeType, line: int, via: tuple[CodeType, int] | None = None) -> int:
        """The number of a place in the code, from which a call is made ``via`` a package's line."""
        key = (id(code), line) if via is None else (id(code), line, id(via[0]), via[1])
        number = self.sites.get(key)
        if number is None:
            number = self.sites[key] = len(self.sites) + 1
            note = {"file": code.co_filename, "line": line, "function": code.co_name}
            self._codes.append(code)  # or another would have its id
            if via is not None:
                self._codes.append(via[0])
                note["via"] = [via[0].co_filename, via[1]]
            self.note(site=number, **note)
        return number

    def signature(self, **facts: Any) -> int:
        """A number for what calls are called with."""
        self._number_of_signatures += 1
        self.note(signature=self._number_of_signatures, **facts)
        return self._number_of_signatures

    def _grow(self, number: int) -> None:
        """Make room for one more; none where there are enough."""
        with self._lock:
            if self._room <= number < MOST_EVENTS:
                self._room *= 2
                self._file.truncate(self._room * EVENT.itemsize)
                self.rows.extend(self._room)
