"""Counter: a number in shared memory that one process raises, and another waits for."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Protocol

from steptime.backend.host import futex
from steptime.backend.host.kernel import counter_in_c

_LOOK_S = 100e-6  # about twice what it takes to block and to be woken up
_WATCH_S = 0.05
_LOOKS = 32  # in C, before letting any other process run

_yield = ctypes.CDLL(None).sched_yield


class Counter(Protocol):
    """Who sees a count also sees what was written before it was reached."""

    def value(self) -> int:
        """The count."""

    def advance(self, count: int, /) -> None:
        """Set the count, and wake who waits for it."""

    def wait(self, count: int, /) -> bool:
        """Wait a moment for the count; whether it is reached."""


class _Word:
    """A Counter in Python, on processors that show stores in the order of the program."""

    def __init__(self, words: memoryview, index: int) -> None:
        self._words = words[index : index + 1]
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._words))

    def value(self) -> int:
        return self._words[0]

    def advance(self, count: int, /) -> None:
        self._words[0] = count
        futex.wake(self._address)

    def wait(self, count: int, /) -> bool:
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


def counter(words: memoryview, index: int, asleep: int, *, in_kernel: bool) -> Counter:
    """The Counter in the word at ``index``; in C whoever waits says so in the one at ``asleep``."""
    if not in_kernel:
        return _Word(words, index)
    here = ctypes.addressof(ctypes.c_uint64.from_buffer(words))
    cores = len(os.sched_getaffinity(0))
    return counter_in_c(here + 8 * index, here + 8 * asleep, _LOOKS if cores > 1 else 1)
