"""Buffers: the vectors of a rank's calls, allocated and filled once, and checks of what arrived."""

from collections.abc import Mapping
from math import log2

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.execute import Vector
from steptime.dtypes import Dtype
from steptime.measure.exact import ExactData
from steptime.measure.transport import BenchTransport
from steptime.program import Collective
from steptime.replay.extent import Extent
from steptime.replay.placement import Layout
from steptime.replay.transport import ReplayTransport

_PERIOD = 65521
_LARGEST = 256  # every integer up to it is exact in every floating-point dtype

# From where the numbers start and by how many powers of two they may grow. Integers wrap around.
_ROOM = {
    "float64": (2.0**-1000, 1900.0),
    "float32": (2.0**-120, 230.0),
    "bfloat16": (2.0**-120, 230.0),
    "float16": (2.0**-14, 20.0),
    **dict.fromkeys(("int8", "uint8", "int16", "int32", "int64"), (1.0, float("inf"))),
}


class Buffers:
    """The memory of one rank, as its layout says, filled with distinct numbers other than zero."""

    def __init__(self, transport: ReplayTransport, layout: Layout, seed: int) -> None:
        self._transport = transport
        self._layout = layout
        random = np.random.default_rng((seed, transport.world.rank))
        self._numbers = random.integers(1, _LARGEST, _PERIOD, endpoint=True).astype(np.float64)
        self._source = self._filled(layout.source)
        self._target = self._filled(layout.target)
        self._doubled: dict[str, float] = dict.fromkeys(layout.target, 0.0)
        self._doubled_at: dict[int, float] = {}

    def of(self, place: int, extent: Extent) -> tuple[Vector, Vector]:
        """The vectors that the op at a place of the list reads and writes; empty where it has none.

        A message in several pieces may read the same vector for each.
        """
        source = self._source.get(extent.dtype, self._target.get(extent.dtype))
        target = self._target.get(extent.dtype, source)
        if source is None or target is None:
            source = target = self._transport.vector(0, self._transport.element(extent.dtype))
        return source[self._layout.reads[place]], target[self._layout.writes[place]]

    def keep_finite(self, place: int, op: Collective, extent: Extent) -> None:
        """Refill what an op in place would make grow beyond the range of its dtype.

        Other ops that sum in the same memory count too.
        """
        dtype, now = self._transport.element(extent.dtype), self._doubled[extent.dtype]
        grows = log2(extent.members) if op.kind != "broadcast" else 0.0
        if now + grows - self._doubled_at.get(place, 0.0) > _ROOM[dtype.name][1]:
            self._fill(self.of(place, extent)[1], dtype)
            self._doubled_at[place] = now
        self._doubled[extent.dtype] = now + grows

    def _filled(self, sizes: Mapping[str, int]) -> dict[str, Vector]:
        vectors = {}
        for dtype, elements in sizes.items():
            element = self._transport.element(dtype)
            vectors[dtype] = self._transport.vector(elements, element)
            self._fill(vectors[dtype], element)
        return vectors

    def _fill(self, vector: Vector, dtype: Dtype) -> None:
        numbers = np.minimum(self._numbers, dtype.largest) * _ROOM[dtype.name][0]
        for at in range(0, len(vector), _PERIOD):
            end = min(at + _PERIOD, len(vector))
            self._transport.world.write(vector[at:end], numbers[: end - at])


def put(transport: BenchTransport, data: ExactData, rank: int, vector: Vector) -> None:
    """Write the input of member ``rank`` into a call's vector."""
    for at, numbers in data.blocks(data.input(rank)):
        transport.write(vector[at : at + numbers.size], numbers)


def wrong(transport: BenchTransport, data: ExactData, rank: int, vector: Vector) -> tuple[int, int]:
    """How many elements member ``rank`` must have received, and how many of them are wrong."""
    checked, bad = 0, 0
    for at, expected in data.blocks(data.output(rank)):
        found: NDArray[np.float64] = transport.read(vector[at : at + expected.size])
        bad += data.wrong(found, expected)
        checked += expected.size
    return checked, bad
