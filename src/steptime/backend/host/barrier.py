"""Barrier: the ranks of a group wait for each other in shared memory, and notice who is missing.

A *point* is one passage of the barrier. Every rank owns a counter in shared memory, which it alone
writes: how many points it has reached. A rank passes when all counters have reached its own. It
spins for some microseconds, then blocks in the system. A rank sees what the others wrote before
they raised their counters because x86-64 makes stores visible in program order; elsewhere the same
in C (``kernel.py``) asks for it.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from steptime.backend.host import futex
from steptime.backend.host.call import WORDS, Call
from steptime.errors import SteptimeError

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.backend.host.members import Members

_LINE = 16  # words between those that different ranks write: processors fetch lines in pairs
_NUMBER = 1  # the word after a rank's counter: the number of its latest call
_WATCH_S = 0.05  # how long to block before looking whether the others still live
_LOOKS = 32  # at a counter, before letting any other process run
_LOOK_S = 50e-6  # about what it takes to block and to be woken up

_yield = ctypes.CDLL(None).sched_yield


def words_needed(ranks: int) -> int:
    """64-bit words of shared memory that the barrier of so many ranks needs."""
    return ranks * _LINE + _rounded(ranks) + 2 * ranks * _LINE


class State(Protocol):
    """What a rank counts for itself: points, its calls, and which set of slots is in use."""

    count: int
    number: int
    turn: int


@dataclass
class Counted:
    """The State that Python keeps."""

    count: int = 0
    number: int = 0
    turn: int = 0


class Barrier:
    """The counters of a group's ranks, and what each calls, in ``words`` that are zero at first."""

    def __init__(self, words: memoryview, ranks: int, members: Members, timeout_s: float) -> None:
        rank = members.rank
        self.rank = rank
        self._ranks = ranks
        self.members = members
        self._timeout_s = timeout_s
        self._watched, self._deadline = 0, 0.0  # a point that lasts, and when that is an error
        self._words = words
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(words))
        self._own = rank * _LINE
        self._others = [other * _LINE for other in range(ranks) if other != rank]
        sleeping = ranks * _LINE
        self._sleeping = words[sleeping : sleeping + ranks]
        self._nobody = memoryview(bytes(8 * ranks)).cast("Q")
        calls = sleeping + _rounded(ranks)
        starts = [
            [calls + (parity * ranks + other) * _LINE for other in range(ranks)]
            for parity in (0, 1)
        ]
        self._calls = [[words[start : start + WORDS] for start in half] for half in starts]
        self._fence = threading.Lock()
        # Where ranks share processors, the one waited for may need this one's.
        self.looks = 1 if ranks > len(os.sched_getaffinity(0)) else _LOOKS
        self.state: State = Counted()

    def arrive(self, call: Call) -> None:
        """Begin a call: pass a point at which all ranks check that they call the same.

        Raises SteptimeError when they do not, and LostContactError when a rank does not come.
        """
        number = self.state.number = self.state.number + 1
        calls = self._calls[number & 1]
        calls[self.rank][:] = words = call.words
        self._words[self._own + _NUMBER] = number
        self.step()
        for theirs in calls:
            if theirs != words:
                raise self._mismatch()

    def step(self) -> None:
        """Pass the next point: wait until all ranks have reached it."""
        count = self.state.count = self.state.count + 1
        words = self._words
        words[self._own] = count
        # A locked instruction: the counter is visible before the others' sleep is looked at, as
        # theirs is before they look at the counter. So either they see it or they are woken.
        with self._fence:
            pass
        if self._sleeping != self._nobody:
            futex.wake(self._address + 8 * self._own)
        for other in self._others:
            if words[other] < count:
                self._await(other, count)

    def wake(self) -> None:
        """Wake the ranks that wait for this one, so that they read its state again."""
        futex.wake(self._address + 8 * self._own)

    def _await(self, other: int, count: int) -> None:
        words = self._words
        until = time.monotonic() + _LOOK_S
        while time.monotonic() < until:
            for _ in range(self.looks):
                if words[other] >= count:
                    return
            _yield()
        try:
            self._block(other, count)
        finally:
            self.members.forget()

    def _block(self, other: int, count: int) -> None:
        words = self._words
        while True:
            self._sleeping[self.rank] = 1
            with self._fence:
                pass
            seen = words[other]
            if seen < count:
                futex.wait(self._address + 8 * other, seen, _WATCH_S)
            self._sleeping[self.rank] = 0
            if words[other] >= count:
                return
            self._watch()

    def _watch(self) -> None:
        """Raise where a rank that is waited for cannot come, or is later than the timeout."""
        if self._watched != self.state.count:
            self._watched, self._deadline = self.state.count, time.monotonic() + self._timeout_s
        self.members.tell(self._late(), self.doing())
        self.members.watch(self._late, f"in {self.doing()}")
        if time.monotonic() > self._deadline and (late := self._late()):
            raise self.members.late(late, self.doing(), self._timeout_s, self._overdue(late))

    def _late(self) -> list[int]:
        return [i for i in range(self._ranks) if self._words[i * _LINE] < self.state.count]

    def doing(self) -> str:
        """The current call in words: ``all_reduce of float32[100] (sum), call number 17``."""
        number = self.state.number
        return f"{self._call_of(self.rank)}, call number {number}" if number else "its first call"

    def _overdue(self, late: list[int]) -> str:
        return f"{self.doing()}, reached the timeout of {self._timeout_s:g} s: " + "; ".join(
            self._last_call(other) for other in late
        )

    def _last_call(self, other: int) -> str:
        name = self.members.name(other)
        number = self._words[other * _LINE + _NUMBER]
        if number == self.state.number:
            return f"{name} joined and does not go on"
        if not number:
            return f"{name} did not join and has called nothing yet"
        last = self._call_of(other)
        return f"{name} did not join; the last that it called is {last}, call number {number}"

    def _call_of(self, other: int) -> Call:
        """The latest call of a rank."""
        number = self._words[other * _LINE + _NUMBER]
        return Call.decode(self._calls[number & 1][other])

    def _mismatch(self) -> SteptimeError:
        """Break the group for ranks that call different things; returns the error to raise."""
        calls = self._calls[self.state.number & 1]
        callers: dict[str, list[str]] = {}
        for other, words in enumerate(calls):
            callers.setdefault(str(Call.decode(words)), []).append(str(self.members.names[other]))
        called = "; ".join(
            f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)} called {call}"
            for call, ranks in callers.items()
        )
        return self.members.fail(
            SteptimeError(f"the ranks disagree in call number {self.state.number}: {called}")
        )

    def unequal(self, sent: Tensor, expected: Tensor) -> SteptimeError:
        """The error where one rank expects another size than a rank sends it.

        ``sent`` and ``expected``: elements from each rank (row) to each (column).
        """
        source, target = (sent != expected).nonzero()[0].tolist()
        names = self.members.names
        return SteptimeError(
            f"in {self.doing()} rank {names[source]} sends {int(sent[source, target])} elements "
            f"to rank {names[target]}, which expects {int(expected[source, target])}"
        )


def _rounded(words: int) -> int:
    return -(-words // _LINE) * _LINE
