"""Channel: messages from one process to another in their order, by a ring buffer of bytes.

The writer counts bytes written, the reader bytes read; neither writes the other's count. A message
is a line with its head, the call and the tag, then its payload. In C (``kernel/channel.c``) what is
larger than the ring is offered instead, and copied once, from where it lies: the writer's arena or
its own memory.
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch

from steptime.backend.host.arena import arena
from steptime.backend.host.call import WORDS, Call
from steptime.backend.host.counter import Counter
from steptime.backend.host.kernel import CLOSED, channel_in_c
from steptime.errors import SteptimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from steptime.backend.host.discovery import Peer

LINE_BYTES = 128
RING_BYTES = 256 << 10
CHANNEL_BYTES = RING_BYTES + 4096
_PIECE_BYTES = RING_BYTES // 4  # so that both sides work at once on a message larger than the ring
_WRITTEN, _READ = 0, LINE_BYTES // 8  # the words with the counts
_LOOKS = 32  # in C, before letting any other process run

Watch: TypeAlias = "Callable[[float, Callable[[], bool]], None]"
"""``watch(seconds, waiting)`` is called during a wait: how long it has lasted, and a check whether
it still lasts. It raises to end the wait."""


class Channel(Protocol):
    """One side of a channel: one thread at a time may write, or take, get or ask for the next.

    A side that waits calls its ``Watch`` from time to time. Payloads are contiguous.
    """

    def written(self) -> int:
        """The bytes written so far."""

    def try_put(self, call: Call, tag: int, payload: Tensor) -> bool:
        """Write a message if that needs no waiting; returns whether it was written."""

    def put(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> None:
        """Write a message."""

    def offer(self, call: Call, tag: int, payload: Tensor) -> int:
        """Begin to write a message if that needs no waiting; returns its number, or 0."""

    def is_finished(self, number: int) -> bool:
        """Whether the message that was begun has been written."""

    def rests(self, number: int) -> bool:
        """Whether the message that was begun waits for its reader, who needs nobody to take it."""

    def finish(self, number: int, watch: Watch) -> None:
        """Wait until the message that was begun has been written."""

    def next(self) -> tuple[Call, int] | None:
        """The call and the tag of the next message, some of which has arrived; None without one."""

    def expect(self) -> bool:
        """Whether some of the next message has arrived, or does within some microseconds."""

    def take(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> bool:
        """Read the next message if it has this tag, size and type, and needs no waiting."""

    def get(self, payload: Tensor, watch: Watch) -> None:
        """Read the next message, some of which has arrived, into ``payload``, of the same bytes."""

    def await_more(self, written: int, watch: Watch) -> None:
        """Wait until more than ``written`` bytes have been written."""


def channel(memory: memoryview, writer: Peer, *, in_kernel: bool) -> Channel:
    """A side of the channel in CHANNEL_BYTES of ``memory``, zero at first.

    ``writer`` is the process that writes.
    """
    return ChannelInC(memory, writer) if in_kernel else _ChannelInPython(memory)


class ChannelInC:
    """A Channel in C, which copies a large message from where it lies, if it may."""

    def __init__(self, memory: memoryview, writer: Peer) -> None:
        here = ctypes.addressof(ctypes.c_uint64.from_buffer(memory))
        looks = _LOOKS if len(os.sched_getaffinity(0)) > 1 else 1
        self._memory = memory  # kept as long as C has its address
        self.side = side = channel_in_c(here, here + 4096, looks, writer.process.pid)
        self._arena, self._writers_arena = arena(), writer.arena
        self._offers = 0
        self._offered: Tensor | None = None  # kept as long as the reader may copy it
        self.written = side.written
        self.expect = side.expect

    def try_put(self, call: Call, tag: int, payload: Tensor) -> bool:
        """As Channel says."""
        return self.side.try_put(call.encoded, tag, payload.data_ptr(), call.bytes)

    def put(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> None:
        """As Channel says."""
        self.finish(self._offers, watch)
        try:
            if not self.side.put(call.encoded, tag, *self._place(payload)):
                self._go_on(watch)
        except BaseException:
            self.side.withdraw()
            raise

    def offer(self, call: Call, tag: int, payload: Tensor) -> int:
        """As Channel says."""
        if not self.side.offer(call.encoded, tag, *self._place(payload)):
            return 0
        self._offered = payload
        self._offers += 1
        return self._offers

    def is_finished(self, number: int) -> bool:
        """As Channel says."""
        return number != self._offers or self.side.is_free()

    def rests(self, number: int) -> bool:
        """As Channel says."""
        return not self.is_finished(number) and self.side.offered != 0

    def finish(self, number: int, watch: Watch) -> None:
        """As Channel says."""
        if number != self._offers:
            return  # a later one began when it was done
        try:
            if self.side.writing and not self.side.go_on():
                self._go_on(watch)
        except BaseException:
            self.side.withdraw()
            raise
        self._offered = None

    def next(self) -> tuple[Call, int] | None:
        """As Channel says."""
        head = self.side.head()
        return None if head is None else _decoded(memoryview(head).cast("Q"))

    def take(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> bool:
        """As Channel says."""
        if call.bytes > RING_BYTES:
            self._map_next()
        done = self.side.take(call.encoded, tag, payload.data_ptr(), call.bytes)
        if done is False:  # it was on offer, and could not be had
            self._go_on(watch)
        return done is not None

    def get(self, payload: Tensor, watch: Watch) -> None:
        """As Channel says."""
        self._map_next()
        if not self.side.get(payload.data_ptr(), payload.nbytes):
            self._go_on(watch)

    def await_more(self, written: int, watch: Watch) -> None:
        """As Channel says."""
        side = self.side
        if not side.await_more(written):
            begun = time.monotonic()
            while not side.await_more(written):
                watch(time.monotonic() - begun, lambda: side.written() <= written)

    def _place(self, payload: Tensor) -> tuple[int, int, int]:
        """The address of a payload, its bytes, and where in the arena of this process it is."""
        place, size = payload.data_ptr(), payload.nbytes
        where = self._arena.offset(place) if size > RING_BYTES else None
        return place, size, CLOSED if where is None else where

    def _map_next(self) -> None:
        """Map that part of the writer's arena in which the next message is, if it is there.

        Where that fails, as when the writer has ended, the message comes as any other, or does not.
        """
        where = self.side.unmapped()
        if where is not None:
            with suppress(SteptimeError):
                self.side.map(*self._writers_arena.mapping(where))

    def _go_on(self, watch: Watch) -> None:
        begun = time.monotonic()
        watch(0, self.side.waits)
        while not self.side.go_on():
            watch(time.monotonic() - begun, self.side.waits)


class _ChannelInPython:
    """A Channel in Python, which copies every message into the ring and out of it."""

    def __init__(self, memory: memoryview) -> None:
        words = memory[:4096].cast("Q")
        self._written, self._read = Counter(words, _WRITTEN), Counter(words, _READ)
        self.written = self._written.value
        self._bytes = torch.frombuffer(memory[4096:CHANNEL_BYTES], dtype=torch.uint8)
        self._heads = memory[4096:CHANNEL_BYTES].cast("Q")

    def try_put(self, call: Call, tag: int, payload: Tensor) -> bool:
        """As Channel says."""
        end = self.written() + LINE_BYTES + _aligned(payload.nbytes)
        fits = end - self._read.value() <= RING_BYTES
        if fits:
            self.put(call, tag, payload, _never)
        return fits

    def put(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> None:
        """As Channel says."""
        source = payload.view(torch.uint8)
        done, size, written = 0, source.numel(), self.written()
        first = LINE_BYTES
        while first or done < size:
            start = (written + first) % RING_BYTES
            piece = min(size - done, _PIECE_BYTES, RING_BYTES - start)
            advance = first + _aligned(piece)
            _await(self._read, max(0, written + advance - RING_BYTES), watch)
            if first:
                at = written % RING_BYTES // 8
                head = call.encoded + tag.to_bytes(8, "little", signed=True)
                self._heads[at : at + WORDS + 1] = memoryview(head).cast("Q")
            self._bytes[start : start + piece].copy_(source[done : done + piece])
            done, written, first = done + piece, written + advance, 0
            self._written.advance(written)

    def offer(self, call: Call, tag: int, payload: Tensor) -> int:  # noqa: ARG002
        """As Channel says: it cannot."""
        return 0

    def is_finished(self, number: int) -> bool:  # noqa: ARG002
        """As Channel says: nothing is begun."""
        return True

    def rests(self, number: int) -> bool:  # noqa: ARG002
        """As Channel says: nothing is begun."""
        return False

    def finish(self, number: int, watch: Watch) -> None:
        """As Channel says: nothing is begun."""

    def expect(self) -> bool:
        """As Channel says."""
        return self.written() > self._read.value()

    def next(self) -> tuple[Call, int] | None:
        """As Channel says."""
        read = self._read.value()
        if self.written() == read:
            return None
        at = read % RING_BYTES // 8
        return _decoded(self._heads[at : at + WORDS + 1])

    def take(self, call: Call, tag: int, payload: Tensor, watch: Watch) -> bool:
        """As Channel says."""
        head = self.next()
        if head is None or head[1] != tag or not head[0].has_size_of(call):
            return False
        end = self._read.value() + LINE_BYTES + _aligned(payload.nbytes)
        whole = self.written() >= end
        if whole:
            self.get(payload, watch)
        return whole

    def get(self, payload: Tensor, watch: Watch) -> None:
        """As Channel says."""
        target = payload.view(torch.uint8)
        done, size, read = 0, target.numel(), self._read.value()
        first = LINE_BYTES
        while first or done < size:
            start = (read + first) % RING_BYTES
            piece = min(size - done, _PIECE_BYTES, RING_BYTES - start)
            _await(self._written, read + first + _aligned(piece), watch)
            target[done : done + piece].copy_(self._bytes[start : start + piece])
            done, read, first = done + piece, read + first + _aligned(piece), 0
            self._read.advance(read)

    def await_more(self, written: int, watch: Watch) -> None:
        """As Channel says."""
        _await(self._written, written + 1, watch)


def _await(counter: Counter, count: int, watch: Watch) -> None:
    if counter.wait(count):
        return
    begun = time.monotonic()
    while not counter.wait(count):
        watch(time.monotonic() - begun, lambda: counter.value() < count)


def _never(_seconds: float, _waiting: Callable[[], bool]) -> None:
    """The Watch of who need not wait."""


def _decoded(head: memoryview) -> tuple[Call, int]:
    word = head[WORDS]
    return Call.decode(head[:WORDS]), word - 2**64 if word >= 2**63 else word


def _aligned(size: int) -> int:
    return -(-size // LINE_BYTES) * LINE_BYTES
