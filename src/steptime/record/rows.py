"""Rows: events in a mapped file by their numbers, 80 bytes each.

``_recorder`` is the same in C, where that was built, and with it the way that calls take there
(``c10d.py``). ``STEPTIME_KERNEL=python`` leaves it out, as it does the kernel of the backend;
``c`` leaves out what is in C++ alone (``dispatch``).
"""

import os
import struct
import threading
from collections.abc import Callable
from itertools import count
from mmap import mmap
from typing import TypeAlias, Union

import numpy as np

__all__ = ["EVENT", "PythonRows", "Rows", "in_c", "recorder", "rows"]

try:
    from steptime.record import _recorder as recorder
except ImportError:  # no C compiler where steptime was installed
    recorder = None  # type: ignore[assignment]

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
        ("number", np.uint32),  # which of the file's events, from 0: told by who reads it
        ("bytes", np.int64),  # of a part of the step: nanoseconds that its thread ran, 0: not known
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
_BOTH_LATER = struct.Struct("<qq")
_ALL_LATER = struct.Struct("<qqqq")
_SIZE = EVENT.itemsize
_ISSUED_AT, _RETURNED_AT, _ENDED_AT, _WAIT_BEGIN_AT = 40, 48, 56, 64


class PythonRows:
    """The rows of one process.

    Every method may be called from any thread: a number is drawn from a counter, which is atomic,
    and whoever has drawn it alone writes there. ``grow`` is called with a number for which there
    is no room: it extends the file, or what is written there is lost.
    """

    def __init__(self, grow: Callable[[int], None]) -> None:
        self._grow = grow
        self._room = 0

    def begin(self, file: int, room: int) -> None:
        """Write from number 0 on into a file, which has room for so many."""
        self._numbers = count()
        self._threads: dict[int, int] = {}
        self._map = mmap(file, room * _SIZE)
        self._room = room

    def extend(self, room: int) -> None:
        """Go on in that file, which has more room now."""
        self._map.resize(room * _SIZE)
        self._room = room

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
        if number >= self._room:
            self._grow(number)
            if number >= self._room:
                return number
        thread = self._threads.get(threading.get_ident(), -1)
        if thread < 0:
            thread = self._threads.setdefault(threading.get_ident(), len(self._threads)) & 0xFFFF
        later = issued, returned, ended, 0, 0
        called = operation, flags, 0, group, thread, peer, site, signature, 0, nbytes, address
        _PACK.pack_into(self._map, number * _SIZE, kind, *called, *later)
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

    def waited(self, number: int, begin: int, end: int) -> None:
        """Say from when to when the script waited for a call."""
        if number < self._room:
            _BOTH_LATER.pack_into(self._map, number * _SIZE + _WAIT_BEGIN_AT, begin, end)

    def waited_at_once(self, number: int, returned: int, end: int) -> None:
        """Say when a synchronous call came back, and when the wait for it ended, or 0."""
        if number < self._room:
            at = number * _SIZE + _RETURNED_AT
            _ALL_LATER.pack_into(self._map, at, returned, end, returned, end)


Rows: TypeAlias = Union[PythonRows, "recorder.Rows"]


def in_c() -> bool:
    """Whether this process records in C."""
    return recorder is not None and os.environ.get("STEPTIME_KERNEL") != "python"


def rows(grow: Callable[[int], None]) -> Rows:
    """Rows in C where they can be, in Python else."""
    return recorder.Rows(grow) if in_c() else PythonRows(grow)
