"""The vectors that a rank's calls move, and how each is checked.

Each stream has its own of each dtype, as large as its largest op needs, allocated and filled once.
"""

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.execute import Vector
from steptime.measure.carrier import Carrier
from steptime.measure.dtype import Dtype
from steptime.measure.exact import ExactData, Segment
from steptime.program import Collective, Op, Program, Recv, Send
from steptime.replay.calls import Caller
from steptime.replay.demand import Extent, buffers

_PERIOD = 65521
_LARGEST = 256  # every integer up to it is exact in every dtype

# From where the numbers start and by how many powers of two they may grow. Integers wrap around.
_ROOM = {
    "float64": (2.0**-1000, 1900.0),
    "float32": (2.0**-120, 230.0),
    "bfloat16": (2.0**-120, 230.0),
    "float16": (2.0**-14, 20.0),
    "int16": (1.0, float("inf")),
}
_SUMS_IN_PLACE = ("all_reduce", "reduce")
_FROM_PART = ("all_gather", "gather")
_INTO_PART = ("reduce_scatter", "scatter", "all_to_all")


class Buffers:
    """The buffers of one rank; all are filled with distinct data that is not zero."""

    def __init__(
        self, caller: Caller, program: Program, ops: Sequence[Op], seed: int, messages: str
    ) -> None:
        self._caller = caller
        self._random = np.random.default_rng((seed, caller.carrier.rank))
        self._vectors: Mapping[tuple[str, str], tuple[Vector, Vector]] = {
            (stream, dtype): (
                caller.carrier.empty(whole, caller.element(dtype)),
                caller.carrier.empty(part, caller.element(dtype)),
            )
            for (stream, dtype), (whole, part) in buffers(program, ops, messages).items()
        }
        self._grown = dict.fromkeys(self._vectors, 0.0)
        for key, both in self._vectors.items():
            for vector in both:
                self._fill(vector, caller.element(key[1]))

    def of(self, op: Collective | Send | Recv, extent: Extent) -> tuple[Vector, Vector]:
        """The whole and the part for an op."""
        whole, part = self._vectors[op.stream, extent.dtype]
        return whole[: extent.whole], part[: extent.part]

    def keep_finite(self, op: Collective | Send | Recv, extent: Extent) -> None:
        """Fill anew what an op would let grow beyond what its dtype can hold."""
        if not (isinstance(op, Collective) and op.kind in _SUMS_IN_PLACE):
            return
        key, dtype = (op.stream, extent.dtype), self._caller.element(extent.dtype)
        self._grown[key] += log2(extent.members)
        if self._grown[key] > _ROOM[dtype.name][1]:
            self._grown[key] = log2(extent.members)
            self._fill(self._vectors[key][0], dtype)

    def _fill(self, vector: Vector, dtype: Dtype) -> None:
        least, _ = _ROOM[dtype.name]
        numbers = self._random.integers(1, _LARGEST, _PERIOD, endpoint=True).astype(np.float64)
        numbers *= least
        for at in range(0, len(vector), _PERIOD):
            end = min(at + _PERIOD, len(vector))
            self._caller.carrier.write(vector[at:end], numbers[: end - at])


def put(
    carrier: Carrier, data: ExactData, rank: int, kind: str, both: tuple[Vector, Vector]
) -> None:
    """Write what member ``rank`` gives to a call into its vectors."""
    _write(carrier, data, data.input(rank), both[kind in _FROM_PART])


def wrong(
    carrier: Carrier, data: ExactData, rank: int, kind: str, both: tuple[Vector, Vector]
) -> tuple[int, int]:
    """How many elements member ``rank`` must have received, and how many of them are wrong."""
    vector, checked, bad = both[kind in _INTO_PART], 0, 0
    for at, expected in data.blocks(data.output(rank)):
        found: NDArray[np.float64] = carrier.read(vector[at : at + expected.size])
        bad += data.wrong(found, expected)
        checked += expected.size
    return checked, bad


def _write(carrier: Carrier, data: ExactData, segments: Sequence[Segment], vector: Vector) -> None:
    for at, numbers in data.blocks(segments):
        carrier.write(vector[at : at + numbers.size], numbers)
