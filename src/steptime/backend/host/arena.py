"""Arena: memory for tensors that the other ranks of this host can read and write in place.

A process has one arena: a shared-memory segment as large as the host's memory, of which only
touched pages take any. A tensor in it is an offset, so the other ranks map each arena once. Freed
pages go back to the system at once, without an unmap anywhere.
"""

from __future__ import annotations

import ctypes
import math
import os
import secrets
import threading
import weakref
from bisect import insort
from collections import deque
from functools import lru_cache

import torch
from torch import Tensor

from steptime.backend.host import segment
from steptime.errors import SteptimeError
from steptime.host_memory import total_bytes
from steptime.units import format_bytes

PAGE = 4096
TOKEN_BYTES = 16


class Arena:
    """The arena of this process.

    It begins with a random token, by which other processes verify that they mapped the right one.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.size = -(-total_bytes() // PAGE) * PAGE
        self.fd = segment.create(self.size)
        self._memory = segment.attach(self.fd, self.size)
        self.base = ctypes.addressof(self._memory)
        self.end = self.base + self.size
        self.token = secrets.token_bytes(TOKEN_BYTES)
        memoryview(self._memory).cast("B")[:TOKEN_BYTES] = self.token
        self.peers: weakref.WeakValueDictionary[str, Tensor] = weakref.WeakValueDictionary()
        """The arenas of other processes by token, kept as long as a group uses them."""
        self._lock = threading.Lock()
        self._free = [(PAGE, self.size - PAGE)]  # (offset, bytes), sorted
        self._freed: deque[tuple[int, int]] = deque()

    def offset(self, tensor: Tensor) -> int | None:
        """Where in the arena the tensor begins, in bytes; None where it lies elsewhere."""
        address = tensor.data_ptr() or self.base  # without elements it lies wherever one likes
        return address - self.base if self.base <= address < self.end else None

    def allocate(self, size: int) -> memoryview:
        """A zeroed tensor of ``size`` > 0 bytes, freed when the last reference to it goes.

        Raises SteptimeError when the host or its cgroup has too little memory.
        """
        pages = -(-size // PAGE) * PAGE
        segment.require_memory(pages)
        offset = self._take(pages)
        segment.populate(self.base + offset, pages)
        memory = memoryview(self._memory)[offset : offset + size]
        weakref.finalize(memory, self._release, offset, pages).atexit = False
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
        raise SteptimeError(f"the shared arena has no {format_bytes(pages)} in one piece left")

    def _release(self, offset: int, pages: int) -> None:
        # Runs whenever garbage is collected, so it takes no lock; and in a forked process the
        # memory is still the parent's.
        if os.getpid() == self.pid:
            segment.give_back(self.base + offset, pages)
            self._freed.append((offset, pages))


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
    it. Raises SteptimeError when there is not enough.
    """
    sizes = torch.Size(shape[0] if shape and isinstance(shape[0], (tuple, list)) else shape)  # type: ignore[arg-type]
    elements = math.prod(sizes)
    if not elements:
        return torch.empty(sizes, dtype=dtype)
    memory = arena().allocate(elements * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype).view(sizes)
