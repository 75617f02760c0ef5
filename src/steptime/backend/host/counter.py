"""Counter: a number in shared memory that one process raises, and another waits for."""

from __future__ import annotations

import ctypes
import time

from steptime.backend.host import futex

_LOOK_S = 100e-6  # about twice what it takes to block and to be woken up
_WATCH_S = 0.05

_yield = ctypes.CDLL(None).sched_yield


class Counter:
    """The word at ``index``, on processors that show stores in the order of the program.

    Who sees a count also sees what was written before it was reached.
    """

    def __init__(self, words: memoryview, index: int) -> None:
        self._words = words[index : index + 1]
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._words))

    def value(self) -> int:
        """The count."""
        return self._words[0]

    def advance(self, count: int) -> None:
        """Set the count, and wake who waits for it."""
        self._words[0] = count
        futex.wake(self._address)

    def wait(self, count: int) -> bool:
        """Wait a moment for the count; whether it is reached."""
        words = self._words
        if words[0] >= count:
            return True
        until = time.monotonic() + _LOOK_S
        while time.monotonic() < until:
            _yield()
            if words[0] >= count:
                return True
        if (seen := words[0]) < count:
            futex.wait(self._address, seen, _WATCH_S)
        return words[0] >= count
