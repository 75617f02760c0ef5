"""Exact data, whose reduction is exact in every order: a result is right or wrong, never close.

As in nccl-tests' verifiable.cu: integers, different for each rank and index, so small that every
partial result is representable. None is zero, so that a buffer nobody wrote to is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from steptime.dtypes import Dtype
from steptime.measure.operation import Operation

Numbers = NDArray[np.float64]

_PERIOD = 65521  # prime, so that no cut of a vector into equal parts falls in with it
_SHIFT = 7919
_ULPS = 2
"""Tolerance of an average, in units in the last place: one division, as nccl-tests allows."""

REDUCED = -1
"""The origin of data that is the reduction of all ranks' data."""


@dataclass(frozen=True)
class Segment:
    """Elements [first, first + count) of the data of rank ``origin``, or of the REDUCED data."""

    origin: int
    first: int
    count: int


@dataclass(frozen=True)
class ExactData:
    """The input of each rank in an operation, and the right output. ``trial`` varies the data."""

    operation: Operation
    dtype: Dtype
    reduction: str
    ranks: int
    root: int
    count: int
    trial: int = 0

    def input(self, rank: int) -> list[Segment]:
        """The expected contents of the input of ``rank``; empty where only the root has one."""
        if self.operation.name in ("broadcast", "scatter") and rank != self.root:
            return []
        size = self.count * self.ranks if self.operation.shares_in else self.count
        return [Segment(rank, 0, size)]

    def output(self, rank: int) -> list[Segment]:
        """The right output of ``rank``; empty where only the root has one."""
        own, every = rank * self.count, range(self.ranks)
        match self.operation.name:
            case "all_reduce":
                return [Segment(REDUCED, 0, self.count)]
            case "reduce_scatter":
                return [Segment(REDUCED, own, self.count)]
            case "reduce" if rank == self.root:
                return [Segment(REDUCED, 0, self.count)]
            case "all_gather":
                return [Segment(r, 0, self.count) for r in every]
            case "gather" if rank == self.root:
                return [Segment(r, 0, self.count) for r in every]
            case "broadcast":
                return [Segment(self.root, 0, self.count)]
            case "scatter":
                return [Segment(self.root, own, self.count)]
            case "all_to_all":
                return [Segment(r, own, self.count) for r in every]
            case "sendrecv":
                return [Segment((rank - 1) % self.ranks, 0, self.count)]
        return []

    def blocks(self, segments: Sequence[Segment]) -> Iterator[tuple[int, Numbers]]:
        """The numbers of consecutive ``segments``, in blocks: (where, numbers)."""
        at = 0
        for segment in segments:
            pattern = self._twice_reduced if segment.origin == REDUCED else self._twice(segment)
            first, end = segment.first, segment.first + segment.count
            while first < end:
                block, offset = divmod(first, _PERIOD)
                size = min(_PERIOD - offset, end - first)
                start = (offset + block * _SHIFT) % _PERIOD
                yield at, pattern[start : start + size]
                first, at = first + size, at + size

    def wrong(self, found: Numbers, expected: Numbers) -> int:
        """How many of the numbers ``found`` are wrong."""
        if self.operation.reduces and self.reduction == "avg":
            # Written so that a NaN is wrong too.
            near = np.abs(found - expected) <= _ULPS * self.dtype.epsilon * np.abs(expected)
            return int(near.size - np.count_nonzero(near))
        return int(np.count_nonzero(found != expected))

    def _twice(self, segment: Segment) -> Numbers:
        return np.tile(self._pattern(segment.origin), 2)

    @cached_property
    def _twice_reduced(self) -> Numbers:
        reduced = reduce(
            {"min": np.minimum, "max": np.maximum, "product": np.multiply}.get(
                self.reduction, np.add
            ),
            map(self._pattern, range(self.ranks)),
        )
        if self.reduction == "avg":
            reduced = reduced / self.ranks
        return np.tile(reduced, 2)

    def _pattern(self, rank: int) -> Numbers:
        """One period of the data of a rank, shape (_PERIOD,)."""
        random = np.random.default_rng((self.trial, rank))
        if not self.operation.reduces or self.reduction in ("min", "max"):
            return random.integers(1, min(self.dtype.largest, 1 << 20) + 1, _PERIOD).astype(float)
        # Each index belongs in turn to so many ranks as may have more there than the neutral
        # element; where few ranks meet a wide type that is all of them.
        turn = (rank + np.arange(_PERIOD)) % self.ranks
        if self.reduction == "product":
            exponent = random.integers(0, 2, _PERIOD) * (turn < self.dtype.exponent)
            return np.exp2(exponent)
        each = max(1, self.dtype.largest // self.ranks)
        values = random.integers(1, min(each, 1 << 20) + 1, _PERIOD)
        return np.where(turn < self.dtype.largest // each, values, 0).astype(float)
