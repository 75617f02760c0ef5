"""The rates of one CPU rank, measured with NumPy: matrix products, copies and additions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steptime import host_memory as room
from steptime.measure.timing import Effort, back_to_back
from steptime.measure.transport import BenchTransport

COPIED = 64 << 20
"""Bytes of the vectors that are copied and added."""

WIDTH = 1024
"""Width of the square matrices that a CPU multiplies."""

_ENOUGH_S = 0.2
"""Minimum duration of each measurement, in seconds."""


@dataclass(frozen=True)
class DeviceRates:
    """Rates of a rank's device, the median over the ranks, while all of them work.

    ``flops``: FLOP/s of a large matrix product by dtype; ``memory_bandwidth``: bytes/s read and
    written by a copy; ``reduction``: bytes/s of adding to a vector; ``memory`` in bytes, of the
    smallest device. ``spread``: the fastest rank's matrix product over the slowest's.
    """

    name: str
    flops: dict[str, float]
    memory_bandwidth: float
    reduction: float
    memory: int
    spread: float


def seconds_of(transport: BenchTransport, run: Callable[[], object]) -> np.ndarray:
    """Seconds of one run on each rank, shape (ranks,), while all of them run it."""

    def once() -> None:
        run()

    first = float(back_to_back(transport, once, Effort(1, 1)).max())
    return back_to_back(transport, once, Effort(1, int(np.clip(_ENOUGH_S / first, 2, 1000))))


def name_of(threads: int) -> str:
    """The name of a part of a CPU with so many threads."""
    return f"{threads} thread{'s' if threads > 1 else ''} of a CPU"


def measure_core(transport: BenchTransport, threads: int, ranks_here: int) -> DeviceRates:
    """Measure the CPU on every rank at once with NumPy; every rank returns the same.

    ``threads``: with how many each computes. ``ranks_here``: how many ranks this host holds.
    """
    a, b, out = (np.ones((WIDTH, WIDTH), np.float32) for _ in range(3))
    rates = 2 * WIDTH**3 / seconds_of(transport, lambda: np.matmul(a, b, out=out))
    one, other = (np.ones(COPIED // 4, np.float32) for _ in range(2))
    copied = 2 * COPIED / seconds_of(transport, lambda: np.copyto(other, one))
    added = COPIED / seconds_of(transport, lambda: np.add(other, one, out=other))
    memory = transport.gather(np.array(float(room.available_bytes() // ranks_here)))
    return DeviceRates(
        name=name_of(threads),
        flops={"fp32": float(np.median(rates))},
        memory_bandwidth=float(np.median(copied)),
        reduction=float(np.median(added)),
        memory=int(memory.min()),
        spread=float(rates.max() / rates.min()),
    )
