"""The connections of a rank to one other, and which of its messages is which."""

import select
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from steptime.backend.sockets.moving import Job
from steptime.backend.sockets.pipe import Pipe
from steptime.backend.sockets.requests import HEAD, Receipt, Sending, split
from steptime.errors import SteptimeError


class LostPeerError(SteptimeError):
    """A rank has gone, and what was asked of it will not come."""


class Work(NamedTuple):
    """Something to do with a pipe of a peer: a Job, and whose."""

    peer: "Peer"
    rail: int
    event: int
    memory: memoryview | None

    @property
    def job(self) -> Job:
        """What is to be done."""
        return self.peer.pipes[self.rail].fd, self.event, self.memory


class Peer:
    """Another rank, reached by one pipe a rail.

    All heads travel on the first pipe, with the first part of their message; parts of longer ones
    on the other pipes, in the order of heads. So a message is known before its parts are read.
    """

    def __init__(self, rank: int, pipes: Sequence[Pipe]) -> None:
        self.rank = rank
        self.pipes = pipes
        self.gone = False
        self._asked: defaultdict[int, deque[Receipt]] = defaultdict(deque)
        """By tag, those that no message has come for, in the order in which they were asked for."""
        self._early: deque[Receipt] = deque()
        self._arriving: Receipt | None = None
        self._missing: list[tuple[int, int]] = []  # of each pipe's part: where it goes on and ends

    @property
    def awaited(self) -> bool:
        """Whether anything that was asked for may come from here."""
        arriving = self._arriving
        wanted = arriving is not None and (arriving not in self._early or arriving.heir is not None)
        return wanted or any(self._asked.values())

    @property
    def staged(self) -> bool:
        """Whether bytes have been read that may be of what is asked for next.

        Not while a message arrives: a thread may be reading its parts at this moment.
        """
        return self._arriving is None and self.pipes[0].staged > 0

    def work(self) -> Iterator[Work]:
        """What there is to do with the pipes, now."""
        if self.gone:
            return
        if self.awaited and self._arriving is None:
            yield Work(self, 0, select.POLLIN, None)
        elif self.awaited and self._arriving is not None:
            for index, (at, end) in enumerate(self._missing):
                if at < end:
                    yield Work(self, index, select.POLLIN, self._arriving.payload[at:end])
        for index, pipe in enumerate(self.pipes):
            if pipe.blocked:
                yield Work(self, index, select.POLLOUT, pipe.rest)

    def did(self, work: Work, moved: int) -> None:
        """Learn what came of a piece of work; ``read`` is to follow when all of it is learned.

        Raises OSError when the connection is lost.
        """
        if moved < 0:
            raise ConnectionResetError
        if work.event == select.POLLOUT:
            pipe = self.pipes[work.rail]
            pipe.write() if work.memory is None else pipe.written(moved)
        elif work.memory is not None:
            at, end = self._missing[work.rail]
            self._missing[work.rail] = at + moved, end

    def send(self, call: bytes, tag: int, payload: memoryview) -> Sending:
        """Begin to send a message."""
        parts = list(split(len(payload), len(self.pipes)))
        sending = Sending(len(parts))
        head = HEAD.pack(call, tag, len(payload))
        for pipe, (first, end) in zip(self.pipes, parts, strict=False):
            pipe.push(head, payload[first:end], sending)
            head = b""
        return sending

    def ask(self, receipt: Receipt) -> None:
        """Wait for a message that has not come."""
        self._asked[receipt.tag].append(receipt)

    def forget(self, receipt: Receipt) -> None:
        """Wait no longer for a message, which has come from elsewhere."""
        with suppress(ValueError):
            self._asked[receipt.tag].remove(receipt)

    def claim(self, receipt: Receipt) -> bool:
        """Fill a receipt with what has come before it was asked for; whether there is anything."""
        for early in self._early:
            if early.tag == receipt.tag and early.heir is None:
                if early.done:
                    receipt.take_over(early)
                    self._early.remove(early)
                else:
                    early.heir = receipt
                return True
        return False

    def read(self) -> None:
        """Read what is here, as long as something of it may have been asked for.

        Raises OSError when the connection is lost.
        """
        while self.awaited:
            if self._arriving is None and not self._begin():
                return
            if not self._go_on():
                return

    def lose(self) -> Sequence[Receipt]:
        """Nothing more comes from here, nor goes there; returns what was asked for in vain."""
        self.gone = True
        asked = [*chain(*self._asked.values())]
        if self._arriving is not None:
            asked.append(self._arriving.heir or self._arriving)
        self._asked.clear()
        self._arriving = None
        for pipe in self.pipes:
            pipe.lose()
        return asked

    def _begin(self) -> bool:
        """Read the head of a message and find out what it is for; whether one is here."""
        head = self.pipes[0].head(HEAD.size)
        if head is None:
            return False
        call, tag, size = HEAD.unpack(head)
        asked = self._asked[tag]
        if asked:
            receipt = asked.popleft()
        else:
            receipt = Receipt(tag, None)
            self._early.append(receipt)
        receipt.begin(self.rank, call, size)
        self._arriving = receipt
        self._missing = list(split(size, len(self.pipes)))
        return True

    def _go_on(self) -> bool:
        """Read what is here of the message that arrives; whether it is whole now."""
        receipt = self._arriving
        if receipt is None:
            return False
        for index, (at, end) in enumerate(self._missing):
            if at < end:
                at += self.pipes[index].fill(receipt.payload[at:end])
                self._missing[index] = at, end
        if any(at < end for at, end in self._missing):
            return False
        receipt.done = True
        if receipt.heir is not None:
            receipt.heir.take_over(receipt)
            self._early.remove(receipt)
        self._arriving, self._missing = None, []
        return True
