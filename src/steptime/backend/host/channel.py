"""Channel: a ring buffer of bytes from one process to another.

The writer counts bytes written, the reader bytes read; neither writes the other's count.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import torch

from steptime.backend.host.call import WORDS
from steptime.backend.host.counter import counter

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from steptime.backend.host.counter import Counter

LINE_BYTES = 128
RING_BYTES = 256 << 10
CHANNEL_BYTES = RING_BYTES + 4096
_PIECE_BYTES = RING_BYTES // 4  # so that both sides work at once on a message larger than the ring
_WRITTEN, _READ = 0, LINE_BYTES // 8  # the words with the counts
_WRITER_ASLEEP, _READER_ASLEEP = _WRITTEN + 1, _READ + 1  # each beside what its process writes

Watch: TypeAlias = "Callable[[float, Callable[[], bool]], None]"
"""``watch(seconds, waiting)`` is called during a wait: how long it has lasted, and a check whether
it still lasts. It raises to end the wait."""


class Channel:
    """A ring buffer in CHANNEL_BYTES of zeroed ``memory``, with one writer and one reader.

    A side that waits calls its ``Watch`` from time to time.
    """

    def __init__(self, memory: memoryview, *, in_kernel: bool) -> None:
        words = memory[:4096].cast("Q")
        self._written = counter(words, _WRITTEN, _READER_ASLEEP, in_kernel=in_kernel)
        self._read = counter(words, _READ, _WRITER_ASLEEP, in_kernel=in_kernel)
        self._bytes = torch.frombuffer(memory[4096:CHANNEL_BYTES], dtype=torch.uint8)
        self._headers = memory[4096:CHANNEL_BYTES].cast("Q")

    @property
    def written(self) -> int:
        """The bytes written so far."""
        return self._written.value()

    @property
    def read(self) -> int:
        """The bytes read so far."""
        return self._read.value()

    def has_room(self, size: int) -> bool:
        """Whether a message with ``size`` bytes of payload can be written without waiting."""
        return self.written + LINE_BYTES + _aligned(size) - self.read <= RING_BYTES

    def put(self, header: memoryview, payload: Tensor, watch: Watch) -> None:
        """Write a message: ``header`` (WORDS + 1 words) and ``payload`` (uint8)."""
        done, size, written = 0, payload.numel(), self.written
        first = LINE_BYTES
        while first or done < size:
            start = (written + first) % RING_BYTES
            piece = min(size - done, _PIECE_BYTES, RING_BYTES - start)
            advance = first + _aligned(piece)
            _await(self._read, max(0, written + advance - RING_BYTES), watch)
            if first:
                at = written % RING_BYTES // 8
                self._headers[at : at + WORDS + 1] = header
            self._bytes[start : start + piece].copy_(payload[done : done + piece])
            done, written, first = done + piece, written + advance, 0
            self._written.advance(written)

    def header(self) -> memoryview:
        """The header of the next message, some of which must have arrived."""
        at = self.read % RING_BYTES // 8
        return self._headers[at : at + WORDS + 1]

    def get(self, payload: Tensor, watch: Watch) -> None:
        """Read the next message, some of which has arrived, into ``payload`` (uint8)."""
        done, size, read = 0, payload.numel(), self.read
        first = LINE_BYTES
        while first or done < size:
            start = (read + first) % RING_BYTES
            piece = min(size - done, _PIECE_BYTES, RING_BYTES - start)
            _await(self._written, read + first + _aligned(piece), watch)
            payload[done : done + piece].copy_(self._bytes[start : start + piece])
            done, read, first = done + piece, read + first + _aligned(piece), 0
            self._read.advance(read)

    def await_more(self, written: int, watch: Watch) -> None:
        """Wait until more than ``written`` bytes have been written."""
        _await(self._written, written + 1, watch)


def _await(counter: Counter, count: int, watch: Watch) -> None:
    if counter.wait(count):
        return
    begun = time.monotonic()
    while not counter.wait(count):
        watch(time.monotonic() - begun, lambda: counter.value() < count)


def _aligned(size: int) -> int:
    return -(-size // LINE_BYTES) * LINE_BYTES
