"""Events: what a process writes down while a script runs, 80 bytes each, in a file that is mapped.

The kernel keeps the pages of a mapped file when the process is killed, so what was written is there
whatever ends it, and another process can read it while this one hangs. What has no fixed size (the
places in the code, the groups, the shapes, who wrote it) stands once, as lines of JSON, in a file
beside it.
"""

import json
import mmap
import os
import socket
import struct
import sys
import threading
import time
from enum import IntEnum
from itertools import count
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

EVENT = np.dtype(
    [
        ("kind", np.uint8),  # a Kind; 0: never written
        ("operation", np.uint8),  # of a call: index into the operations of c10d.py
        ("flags", np.uint8),  # of a call: ASYNC
        ("spare", np.uint8),
        ("group", np.uint16),  # of a call: number of the group
        ("thread", np.uint16),
        ("peer", np.int32),  # root or peer, as the call names it; -1: none
        ("site", np.uint32),  # number of the place in the code; 0: unknown
        ("signature", np.uint32),  # of a call: number of what it is called with; 0: no tensors
        ("spare_too", np.uint32),
        ("bytes", np.int64),
        ("address", np.int64),  # of a call or wait: where its first tensor begins; 0: nowhere
        ("issued", np.int64),  # the fields below are nanoseconds of perf_counter, 0: never
        ("returned", np.int64),
        ("ended", np.int64),
        ("wait_begin", np.int64),  # when the script began to wait for it
        ("wait_end", np.int64),
    ]
)
_PACK = struct.Struct("<BBBBHHiIIIqqqqqqq")
_LATER = struct.Struct("<q")
_ALL_LATER = struct.Struct("<qqqq")
_SIZE = EVENT.itemsize
_ISSUED_AT, _RETURNED_AT, _ENDED_AT, _WAIT_BEGIN_AT = 40, 48, 56, 64

ASYNC = 1
_CHUNK = 1 << 14
MOST_EVENTS = 1 << 24
"""So many are kept, 1.3 GB of them; what comes later is counted alone."""

EVENTS, NOTES, OPERATORS = ".events", ".notes", ".operators"
"""How the files of a process end; the last is there where operators were profiled."""


class Kind(IntEnum):
    """What an event is: a call of c10d, a wait that belongs to none, or a part of the step."""

    CALL = 1
    WAIT = 2
    BACKWARD = 3
    OPTIMIZER = 4
    DATA = 5
    STEP = 6
    """The end of a step, as ``steptime.step`` has it."""


class Log:
    """The two files of this process, open for writing.

    Every method may be called from any thread: a number is drawn from a counter, which is atomic,
    and whoever has drawn it alone writes there.
    """

    def __init__(self, folder: Path) -> None:
        """Make the files in a folder; OSError where that cannot be."""
        self._folder = folder
        self.begin()

    def begin(self) -> None:
        """Begin with files of this very process, as a forked child must."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.path = self._folder / f"{socket.gethostname()}-{os.getpid()}{EVENTS}"
        self._file = self.path.open("w+b")
        self._notes = self.path.with_suffix(NOTES).open("wb", buffering=0)
        self.operators_file = self.path.with_suffix(OPERATORS)
        self._file.truncate(_CHUNK * EVENT.itemsize)
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._room = _CHUNK
        self._numbers = count()
        self._sites: dict[tuple[int, int], int] = {}
        self._codes: list[CodeType] = []
        self._threads: dict[int, int] = {}
        self._number_of_signatures = 0
        self._lock = threading.Lock()
        self.note(
            host=socket.gethostname(),
            pid=os.getpid(),
            command=sys.argv,
            clock_ns=time.perf_counter_ns(),
            wall_ns=time.time_ns(),
        )

    def note(self, **facts: Any) -> None:
        """Write a line to the file beside."""
        self._notes.write(json.dumps(facts).encode() + b"\n")

    def write(
        self,
        kind: int,
        issued: int,
        returned: int = 0,
        ended: int = 0,
        operation: int = 0,
        flags: int = 0,
        group: int = 0,
        peer: int = -1,
        site: int = 0,
        signature: int = 0,
        nbytes: int = 0,
        address: int = 0,
    ) -> int:
        """Write an event; its number, for what is known of it later."""
        number = next(self._numbers)
        if number >= self._room and not self._grow(number):
            return number
        thread = self._threads.get(threading.get_ident(), -1)
        if thread < 0:
            thread = self._threads.setdefault(threading.get_ident(), len(self._threads)) & 0xFFFF
        _PACK.pack_into(
            self._map,
            number * _SIZE,
            kind,
            operation,
            flags,
            0,
            group,
            thread,
            peer,
            site,
            signature,
            0,
            nbytes,
            address,
            issued,
            returned,
            ended,
            0,
            0,
        )
        return number

    def issued(self, number: int) -> int:
        """When an event began."""
        if number >= self._room:
            return 0
        return int(_LATER.unpack_from(self._map, number * _SIZE + _ISSUED_AT)[0])

    def returned(self, number: int, when: int) -> None:
        """Say when a call came back to the script."""
        if number < self._room:
            _LATER.pack_into(self._map, number * _SIZE + _RETURNED_AT, when)

    def end(self, number: int, when: int) -> None:
        """Say when a call was done; whoever says it first is right."""
        at = number * _SIZE + _ENDED_AT
        if number < self._room and _LATER.unpack_from(self._map, at) == (0,):
            _LATER.pack_into(self._map, at, when)

    def waited_at_once(self, number: int, returned: int, end: int) -> None:
        """Say when a synchronous call came back, and when the wait for it ended, or 0."""
        if number < self._room:
            at = number * _SIZE + _RETURNED_AT
            _ALL_LATER.pack_into(self._map, at, returned, end, returned, end)

    def waited(self, number: int, begin: int, end: int) -> None:
        """Say from when to when the script waited for a call."""
        if number < self._room:
            _LATER.pack_into(self._map, number * _SIZE + _WAIT_BEGIN_AT, begin)
            _LATER.pack_into(self._map, number * _SIZE + _WAIT_BEGIN_AT + 8, end)

    def site(self, code: CodeType, line: int) -> int:
        """The number of a place in the code."""
        number = self._sites.get((id(code), line))
        if number is None:
            self._codes.append(code)  # or another would have its id
            number = self._sites[id(code), line] = len(self._sites) + 1
            self.note(site=number, file=code.co_filename, line=line, function=code.co_name)
        return number

    def signature(self, **facts: Any) -> int:
        """A number for what calls are called with."""
        self._number_of_signatures += 1
        self.note(signature=self._number_of_signatures, **facts)
        return self._number_of_signatures

    def _grow(self, number: int) -> bool:
        """Make room for one more; False where there are enough."""
        with self._lock:
            if number >= MOST_EVENTS:
                return False
            if number >= self._room:
                self._file.truncate(2 * self._room * EVENT.itemsize)
                self._map.resize(2 * self._room * EVENT.itemsize)
                self._room *= 2
        return True
