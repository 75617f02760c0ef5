"""Channel: a ring buffer of bytes from one process to another.

The writer counts bytes written, the reader bytes read; neither writes the other's count.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, TypeAlias

import torch

from steptime.backend.host import futex
from steptime.backend.host.call import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

LINE_BYTES = 128
RING_BYTES = 256 << 10
CHANNEL_BYTES = RING_BYTES + 4096
_PIECE_BYTES = RING_BYTES // 4  # so that both sides work at once on a message larger than the ring
_WRITTEN, _READ = 0, LINE_BYTES // 8  # the words with the counts
_LOOK_S = 100e-6  # about twice what it takes to block and to be woken up
_WATCH_S = 0.05

_yield = ctypes.CDLL(None).sched_yield

Watch: TypeAlias = "Callable[[float, Callable[[], bool]], None]"
"""``watch(seconds, waiting)`` is called during a wait: how long it has lasted, and a check whether
it still lasts. It raises to end the wait."""


class Channel:
    """A ring buffer in CHANNEL_BYTES of zeroed ``memory``, with one writer and one reader.

    A side that waits calls its ``Watch`` from time to time.
    """

    def __init__(self, memory: memoryview) -> None:
        self._words = memory[:4096].cast("Q")
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._words))
        self._bytes = torch.frombuffer(memory[4096:CHANNEL_BYTES], dtype=torch.uint8)
        self._headers = memory[4096:CHANNEL_BYTES].cast("Q")

    @property
    def written(self) -> int:
        """The bytes written so far."""
        return self._words[_WRITTEN]

    @property
    def read(self) -> int:
        """The bytes read so far."""
        return self._words[_READ]

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
            self._await(_READ, written + advance - RING_BYTES, watch)
            if first:
                at = written % RING_BYTES // 8
                self._headers[at : at + WORDS + 1] = header
            self._bytes[start : start + piece].copy_(payload[done : done + piece])
            done, written, first = done + piece, written + advance, 0
            self._words[_WRITTEN] = written
            futex.wake(self._address + 8 * _WRITTEN)

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
            self._await(_WRITTEN, read + first + _aligned(piece), watch)
            payload[done : done + piece].copy_(self._bytes[start : start + piece])
            done, read, first = done + piece, read + first + _aligned(piece), 0
            self._words[_READ] = read
            futex.wake(self._address + 8 * _READ)

    def await_more(self, written: int, watch: Watch) -> None:
        """Wait until more than ``written`` bytes have been written."""
        self._await(_WRITTEN, written + 1, watch)

    def _await(self, word: int, count: int, watch: Watch) -> None:
        words = self._words
        if words[word] >= count:
            return
        begun = time.monotonic()
        while time.monotonic() - begun < _LOOK_S:
            _yield()
            if words[word] >= count:
                return
        while (seen := words[word]) < count:
            futex.wait(self._address + 8 * word, seen, _WATCH_S)
            if words[word] < count:
                watch(time.monotonic() - begun, lambda: words[word] < count)


def _aligned(size: int) -> int:
    return -(-size // LINE_BYTES) * LINE_BYTES
