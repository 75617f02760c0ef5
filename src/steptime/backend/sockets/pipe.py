"""One TCP connection between two ranks, written and read without waiting."""

import socket
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from steptime.backend.sockets.requests import Sending

_STAGE_BYTES = 32 << 10
"""So much is read at once where the length of what comes is not known: whole small messages."""


@dataclass(slots=True)
class _Part:
    """What has not left yet of a part of a message: its head, if it has one, and its bytes."""

    head: memoryview
    body: memoryview
    of: Sending


class Pipe:
    """A connection; its methods raise OSError when it is lost."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.fd = connection.fileno()
        self._outgoing: deque[_Part] = deque()
        self._stage = memoryview(bytearray(_STAGE_BYTES))
        self._first = self._end = 0  # what of the stage has been read and not been taken

    @property
    def blocked(self) -> bool:
        """Whether there is more to write than the kernel would take."""
        return bool(self._outgoing)

    @property
    def rest(self) -> memoryview | None:
        """What is to be written next, if it is of one piece of memory."""
        part = self._outgoing[0]
        return None if part.head else part.body

    def written(self, size: int) -> None:
        """So much of the rest has been written."""
        part = self._outgoing[0]
        part.body = part.body[size:]
        if not part.body:
            self.write()

    @property
    def staged(self) -> int:
        """The bytes that have been read, and belong to no message yet."""
        return self._end - self._first

    def push(self, head: bytes, body: memoryview, sending: Sending) -> None:
        """Queue a part of a message, and write what the kernel takes at once."""
        self._outgoing.append(_Part(memoryview(head), body, sending))
        if len(self._outgoing) == 1:
            self.write()

    def write(self) -> None:
        """Write what the kernel takes."""
        while self._outgoing:
            part = self._outgoing[0]
            if not part.head and not part.body:
                self._outgoing.popleft().of.parts -= 1
                continue
            try:
                sent = self.socket.sendmsg((part.head, part.body))
            except BlockingIOError:
                return
            of_head = min(sent, len(part.head))
            part.head, part.body = part.head[of_head:], part.body[sent - of_head :]

    def lose(self) -> None:
        """Nothing that waits here will leave."""
        for part in self._outgoing:
            part.of.lost = True
        self._outgoing.clear()

    def shut(self) -> None:
        """End the connection, on both sides."""
        with suppress(OSError):  # it is lost already
            self.socket.shutdown(socket.SHUT_RDWR)

    def head(self, size: int) -> memoryview | None:
        """The next ``size`` bytes, if all of them are here."""
        if self.staged < size:
            if self._first:
                self._stage[: self.staged] = self._stage[self._first : self._end]
                self._first, self._end = 0, self.staged
            self._end += self._receive(self._stage[self._end :])
            if self.staged < size:
                return None
        self._first += size
        return self._stage[self._first - size : self._first]

    def fill(self, place: memoryview) -> int:
        """Read what is here into ``place``, as far as it goes; returns the bytes."""
        done = min(self.staged, len(place))
        if done:
            place[:done] = self._stage[self._first : self._first + done]
            self._first += done
        if done < len(place):
            done += self._receive(place[done:])
        return done

    def _receive(self, place: memoryview) -> int:
        """The bytes that were here, 0 for none."""
        try:
            received = self.socket.recv_into(place)
        except BlockingIOError:
            return 0
        if not received:
            raise ConnectionResetError
        return received
