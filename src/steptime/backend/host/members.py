"""Members: the ranks of a group: their names, whether they live, and why one of them failed.

A group in which a rank died, failed or left cannot go on: whoever notices writes the error to
shared memory, and every later call of every rank raises that same sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steptime.backend.deadlock import Wait
from steptime.backend.host.waits import Board, waits
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from steptime.backend.host.process import Process

_REASON_BYTES = 1024
NOTE_BYTES = 2 * _REASON_BYTES
"""Shared memory of each member: a word of state, the error's text; then what it waits for."""

_PRESENT, _FAILED, _LEFT = 0, 1, 2


class Members:
    """The members of a group, seen by the one numbered ``rank``.

    ``names`` are the numbers by which errors call them; ``notes`` (ranks x NOTE_BYTES) is shared.
    """

    def __init__(
        self, notes: memoryview, rank: int, processes: Sequence[Process], names: Sequence[int]
    ) -> None:
        self.rank = rank
        self.names = names
        self.failure: SteptimeError | None = None
        self._processes = processes
        starts = range(0, len(names) * NOTE_BYTES, NOTE_BYTES)
        self._notes = [notes[start : start + _REASON_BYTES] for start in starts]
        self._board = Board(
            rank, [notes[start + _REASON_BYTES : start + NOTE_BYTES] for start in starts]
        )
        waits().add(self._board)

    def check(self) -> None:
        """Raise the error that broke the group, if any did."""
        if self.failure:
            raise type(self.failure)(*self.failure.args)

    def fail(self, error: SteptimeError) -> SteptimeError:
        """Break the group, tell the others why, and return the error to raise."""
        if self.failure is None:
            self.failure = error
            sentence = str(error).encode()[: _REASON_BYTES - 8]
            note = self._notes[self.rank]
            note[8 : 8 + len(sentence)] = sentence
            note[0] = _FAILED
        return self.failure

    def leave(self) -> None:
        """Leave the group: tell the others, and let this rank's calls in progress fail."""
        if self.failure is None:
            self.failure = LostContactError(f"{self.name(self.rank)} has left the group")
            self._notes[self.rank][0] = _LEFT

    def left(self, other: int) -> bool:
        """Whether a member has left the group; messages it sent before may still arrive."""
        return self._notes[other][0] == _LEFT

    def watch(self, awaited: Callable[[], Iterable[int]], where: str) -> None:
        """Raise LostContactError if the group has failed, or an awaited member cannot come.

        ``awaited`` tells who is missing now: a member may still come, and only then die or leave.
        """
        self.check()
        for other, note in enumerate(self._notes):
            if note[0] == _FAILED and other != self.rank and awaited():
                sentence = bytes(note[8:]).rstrip(b"\0").decode(errors="replace")
                raise self.fail(LostContactError(sentence))
        for other in awaited():
            left = self.left(other)
            if (left or not self._processes[other].lives()) and other in awaited():
                fate = "left the group" if left else "died"
                raise self.fail(LostContactError(f"{self.name(other)} {fate} {where}"))

    def tell(self, awaited: Iterable[int], doing: str) -> None:
        """Tell the other processes that this thread needs all of ``awaited``, until ``forget``."""
        waits().tell(self._wait(awaited, doing))

    def forget(self) -> None:
        """This thread waits no more."""
        waits().forget()

    def late(
        self, awaited: Iterable[int], doing: str, timeout_s: float, otherwise: str
    ) -> SteptimeError:
        """Break the group at its timeout: for ranks that wait for each other, or ``otherwise``.

        Returns the error to raise.
        """
        circle = waits().deadlock(self._wait(awaited, doing))
        found = f"deadlock, at the timeout of {timeout_s:g} s: {circle}" if circle else otherwise
        return self.fail(LostContactError(found))

    def _wait(self, awaited: Iterable[int], doing: str) -> Wait:
        return Wait(self.names[self.rank], tuple(self.names[other] for other in awaited), doing)

    def pid(self, other: int) -> int:
        """The process of a member."""
        return self._processes[other].pid

    def name(self, other: int) -> str:
        """``rank 2 (pid 4711)``."""
        return f"rank {self.names[other]} (pid {self._processes[other].pid})"
