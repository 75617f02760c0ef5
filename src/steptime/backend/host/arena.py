"""Arena: memory for tensors that the other ranks of this host can read and write in place.

A process has one arena, which grows by a segment when a tensor does not fit into those it has. A
tensor in it is an offset, so the other ranks map each segment once, when they first read one of its
tensors. Freed pages go back to the system at once, without an unmap anywhere.

The first page tells the other ranks about the segments: a random token, by which they verify that
they mapped the right arena, then for each segment its offset, its bytes and its descriptor, 8 bytes
each. A row is written before any tensor of its segment is spoken of.
"""

from __future__ import annotations

import ctypes
import math
import os
import secrets
import struct
import threading
import weakref
from bisect import insort
from collections import deque
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from steptime.backend.host import segment
from steptime.errors import SteptimeError
from steptime.units import format_bytes

PAGE = 4096
TOKEN_BYTES = 16
LEAST_BYTES = 64 << 20
"""A segment has at least as many, unless a limit forbids it. They are addresses and no memory."""

_ROW = struct.Struct("QQQ")
_MOST_SEGMENTS = (PAGE - TOKEN_BYTES) // _ROW.size


class _Segment(NamedTuple):
    address: int
    end: int
    offset: int
    memory: memoryview


class Arena:
    """The arena of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.fd, head = segment.make(PAGE)
        page = memoryview(head).cast("B")
        self.token = secrets.token_bytes(TOKEN_BYTES)
        page[:TOKEN_BYTES] = self.token
        self._rows = page[TOKEN_BYTES:]
        self.segments: list[_Segment] = []
        """All that it has ever had, in the order in which they came."""
        self.peers: weakref.WeakValueDictionary[str, PeerArena] = weakref.WeakValueDictionary()
        """The arenas of other processes by token, kept as long as a group uses them."""
        self._lock = threading.Lock()
        self._free: list[tuple[int, int]] = []  # (offset, bytes), sorted
        self._freed: deque[tuple[int, int]] = deque()

    def offset(self, place: int) -> int | None:
        """Where in the arena the byte at an address is; None where that lies elsewhere."""
        for address, end, offset, _ in self.segments:
            if address <= place < end:
                return offset + place - address
        return None if place else 0  # a tensor without elements lies wherever one likes

    def allocate(self, size: int) -> memoryview:
        """A zeroed tensor of ``size`` > 0 bytes, freed when the last reference to it goes.

        Raises SteptimeError when the host or its cgroup has too little memory, or a limit of the
        process is reached.
        """
        pages = -(-size // PAGE) * PAGE
        segment.require_memory(pages)
        offset = self._take(pages)
        within = next(s for s in reversed(self.segments) if s.offset <= offset)
        start = offset - within.offset
        memory = within.memory[start : start + size]
        address = within.address + start
        weakref.finalize(memory, self._release, offset, address, pages).atexit = False
        segment.populate(address, pages)
        return memory

    def _take(self, pages: int) -> int:
        with self._lock:
            while self._freed:
                insort(self._free, self._freed.popleft())
            self._free = _joined(self._free)
            for index, (offset, size) in enumerate(self._free):
                if size >= pages:
                    self._free[index] = (offset + pages, size - pages)
                    return offset
            offset, size = self._grow(pages)
            self._free.append((offset + pages, size - pages))
            return offset

    def _grow(self, pages: int) -> tuple[int, int]:
        """Add a segment with room for ``pages`` bytes; returns its offset and its bytes.

        It is as large as all before it together, so that there are few, if the limits allow that.
        """
        count = len(self.segments)
        if count == _MOST_SEGMENTS:
            raise SteptimeError(f"the shared arena has no {format_bytes(pages)} in one piece left")
        total = sum(end - address for address, end, _, _ in self.segments)
        try:
            fd, memory = segment.make(max(pages, total, LEAST_BYTES))
        except SteptimeError:
            fd, memory = segment.make(pages)
        # A page between segments keeps what is free in one from being joined with the next.
        address, offset, size = ctypes.addressof(memory), total + PAGE * count, len(memory)
        _ROW.pack_into(self._rows, count * _ROW.size, offset, size, fd)
        self.segments.append(
            _Segment(address, address + size, offset, memoryview(memory).cast("B"))
        )
        return offset, size

    def _release(self, offset: int, address: int, pages: int) -> None:
        # Runs whenever garbage is collected, so it takes no lock; and in a forked process the
        # memory is still the parent's.
        if os.getpid() == self.pid:
            segment.give_back(address, pages)
            self._freed.append((offset, pages))


class PeerArena:
    """The arena of process ``pid``, whose first page is open here as ``fd``."""

    def __init__(self, pid: int, fd: int) -> None:
        self._pid = pid
        page = memoryview(segment.attach(fd, PAGE)).cast("B")
        self._rows = page[TOKEN_BYTES : TOKEN_BYTES + _MOST_SEGMENTS * _ROW.size]
        self._segments: dict[int, Tensor] = {}
        self._mapping = threading.Lock()

    def view(self, offset: int, size: int) -> Tensor:
        """The ``size`` bytes from ``offset`` on, uint8.

        Raises SteptimeError when their segment cannot be opened or mapped.
        """
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        start, segment = self._segment_of(offset)
        return segment[offset - start : offset - start + size]

    def mapping(self, offset: int) -> tuple[int, int, int]:
        """Of the segment around an offset: its bounds, and the address where it is mapped here.

        It stays there as long as this object. Raises as ``view`` does.
        """
        start, segment = self._segment_of(offset)
        return start, start + segment.numel(), segment.data_ptr()

    def _segment_of(self, offset: int) -> tuple[int, Tensor]:
        rows = _ROW.iter_unpack(self._rows)
        start, length, fd = next(row for row in rows if row[0] <= offset < row[0] + row[1])
        # Groups keep the addresses of ``mapping``, and call in threads of their own: a segment that
        # two of them mapped would be unmapped under the first, and its place go to another one.
        with self._mapping:
            if start not in self._segments:
                self._segments[start] = self._map(fd, length)
        return start, self._segments[start]

    def _map(self, fd: int, size: int) -> Tensor:
        memory = segment.map_of(self._pid, fd, size)
        if memory is None:
            raise SteptimeError(
                f"a shared tensor of process {self._pid} cannot be opened: that process has ended, "
                "or this one may open no more files (ulimit -n)"
            )
        return torch.frombuffer(memory, dtype=torch.uint8)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge adjacent ones of some sorted spans, and drop empty ones."""
    joined: list[tuple[int, int]] = []
    for offset, size in spans:
        if joined and sum(joined[-1]) == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        elif size:
            joined.append((offset, size))
    return joined


def arena() -> Arena:
    """The arena of this process; a forked process has one of its own."""
    return _arena_of(os.getpid())


@lru_cache(maxsize=1)
def _arena_of(_pid: int) -> Arena:
    return Arena()


def empty(*shape: int | tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """An uninitialised tensor in this process's arena; collectives on it need no copy.

    ``shape`` is given as to ``torch.empty``. The memory is freed with the last tensor that views
    it. Raises SteptimeError when there is not enough, or a limit of the process forbids it.
    """
    sizes = torch.Size(shape[0] if shape and isinstance(shape[0], (tuple, list)) else shape)  # type: ignore[arg-type]
    elements = math.prod(sizes)
    if not elements:
        return torch.empty(sizes, dtype=dtype)
    memory = arena().allocate(elements * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype).view(sizes)
