"""Call: the description of a collective call that ranks exchange to check that they agree."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Self

import torch

WORDS = 8
"""Size of an encoded call in 64-bit words: one cache line."""

_FORMAT = struct.Struct("<BBhiQ48s")


class Kind(IntEnum):
    """The kind of a collective; its value is how shared memory encodes it."""

    __hash__ = int.__hash__  # an Enum's own is in Python, and calls are found by it

    BARRIER = 1
    ALL_REDUCE = 2
    BROADCAST = 3
    REDUCE = 4
    ALL_GATHER = 5
    REDUCE_SCATTER = 6
    GATHER = 7
    SCATTER = 8
    ALL_TO_ALL = 9
    SEND = 10
    RECV = 11


_DTYPES = tuple(sorted({v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str))
_ROOT = {
    Kind.BROADCAST: "from",
    Kind.SCATTER: "from",
    Kind.RECV: "from",
    Kind.REDUCE: "to",
    Kind.GATHER: "to",
    Kind.SEND: "to",
}


@dataclass(frozen=True)
class Call:
    """The description of one collective call; all ranks must make the same, and errors quote it.

    ``elements`` counts what one rank gives (all_reduce, broadcast, reduce, all_gather, gather,
    send) or gets (reduce_scatter, scatter, recv); for all_to_all, whose sizes differ, it is 0.
    ``root`` is the root's global rank, only compared and quoted in errors. ``op`` is the
    reduction's name.
    """

    kind: Kind
    dtype: torch.dtype | None = None
    elements: int = 0
    root: int = -1
    op: str = ""

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(
        kind: Kind,
        dtype: torch.dtype | None = None,
        elements: int = 0,
        root: int = -1,
        op: str = "",
    ) -> Call:
        """The call from a cache, since building one takes longer than a small collective."""
        return Call(kind, dtype, elements, root, op)

    @cached_property
    def encoded(self) -> bytes:
        """The call as ``WORDS`` 64-bit words."""
        dtype = 0 if self.dtype is None else 1 + _DTYPES.index(self.dtype)
        name = self.op.encode()[:48]
        return _FORMAT.pack(self.kind, dtype, 0, self.root, self.elements, name)

    @cached_property
    def words(self) -> memoryview:
        """``encoded``, word by word."""
        return memoryview(self.encoded).cast("Q")

    @cached_property
    def bytes(self) -> int:
        """The bytes of ``elements`` elements."""
        return 0 if self.dtype is None else self.elements * self.dtype.itemsize

    def has_size_of(self, other: Call) -> bool:
        """Whether both are of the same type and number of elements."""
        return self.dtype == other.dtype and self.elements == other.elements

    @classmethod
    def decode(cls, words: memoryview) -> Self:
        """The call that ``words`` encode."""
        kind, dtype, _, root, elements, name = _FORMAT.unpack(words.tobytes())
        op = name.rstrip(b"\0").decode(errors="replace")
        return cls(Kind(kind), _DTYPES[dtype - 1] if dtype else None, elements, root, op)

    def __str__(self) -> str:
        text = self.kind.name.lower()
        if self.dtype is not None:
            text += f" of {str(self.dtype).removeprefix('torch.')}"
            text += f"[{self.elements}]" if self.kind != Kind.ALL_TO_ALL else ""
        if self.kind in _ROOT:
            text += f" {_ROOT[self.kind]} rank {self.root}"
        return text + (f" ({self.op})" if self.op else "")
