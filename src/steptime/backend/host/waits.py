"""Waits: what the threads of each process wait for, told to the other processes of the host.

Whoever waits long writes down for whom, where all members of its groups can read it; who runs into
the timeout looks there whether those for whom it waits wait for it in turn.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
import weakref
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from steptime.backend.deadlock import Wait, deadlock
from steptime.backend.work import is_awaited

if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH = 4  # bytes of the length in front of the text
_LINGER_S = 30.0  # how long one in a deadlock is told after it raised: the others do as well


@dataclass(frozen=True, eq=False)
class Board:
    """Where the members of one group write what they wait for: shared memory, zero at first."""

    own: int
    places: Sequence[memoryview]


class Waits:
    """What this process waits for, on the boards of all its groups."""

    def __init__(self) -> None:
        self._boards: weakref.WeakSet[Board] = weakref.WeakSet()
        self._of_threads: dict[int, tuple[Wait, float]] = {}
        """By thread; with the time on the monotonic clock from which on it holds no more."""
        self._lock = threading.Lock()

    def add(self, board: Board) -> None:
        """Write on this board too, as long as it is kept elsewhere."""
        with self._lock:
            self._boards.add(board)

    def tell(self, wait: Wait) -> None:
        """Say that this thread waits, if a caller waits for what it does."""
        if is_awaited() and self._of_threads.get(threading.get_ident()) != (wait, math.inf):
            self._change(wait, math.inf)

    def forget(self) -> None:
        """This thread waits no more."""
        if self._of_threads:
            wait, until = self._of_threads.get(threading.get_ident(), (None, 0))
            if wait and until == math.inf:
                self._change(wait, 0)

    def deadlock(self, wait: Wait) -> str | None:
        """The circle in which this thread waits, in words; it stays told for the others in it."""
        with self._lock:
            boards = list(self._boards)
        told = {one for board in boards for place in board.places for one in _read(place)}
        circle = deadlock(wait.rank, told)
        if circle:
            self._change(wait, time.monotonic() + _LINGER_S)
        return circle

    def _change(self, wait: Wait, until: float) -> None:
        with self._lock:
            # Who waits anew has done with what lingers.
            kept = {thread: one for thread, one in self._of_threads.items() if one[1] == math.inf}
            kept[threading.get_ident()] = wait, until
            self._of_threads = {thread: one for thread, one in kept.items() if one[1]}
            self._write()

    def _write(self) -> None:
        text = json.dumps([(*astuple(w), until) for w, until in self._of_threads.values()]).encode()
        for board in self._boards:
            place = board.places[board.own]
            # None while it is written, and none if it does not fit.
            place[:_LENGTH] = bytes(_LENGTH)
            if _LENGTH + len(text) <= len(place):
                place[_LENGTH : _LENGTH + len(text)] = text
                place[:_LENGTH] = len(text).to_bytes(_LENGTH, "little")


def _read(place: memoryview) -> list[Wait]:
    size = int.from_bytes(place[:_LENGTH], "little")
    try:
        told = json.loads(bytes(place[_LENGTH : _LENGTH + size])) if size else []
    except ValueError:
        return []  # it was being written
    now = time.monotonic()  # one clock for all processes of a host
    return [Wait(rank, tuple(of), doing) for rank, of, doing, until in told if until > now]


def waits() -> Waits:
    """The waits of this process; a forked process has its own."""
    return _waits_of(os.getpid())


@lru_cache(maxsize=1)
def _waits_of(_pid: int) -> Waits:
    return Waits()
