"""Timing an operation: by the conventions of nccl-tests, and one by one by OSU's."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from steptime import clock
from steptime.measure.transport import BenchTransport, Run

Seconds = NDArray[np.float64]


class Average(IntEnum):
    """How one time is made from those of all ranks; the numbers are nccl-tests' ``-a``."""

    RANK_0 = 0
    MEAN = 1
    MIN = 2
    MAX = 3

    def of(self, times: Seconds) -> float:
        """The average of ``times``, shape (ranks,)."""
        match self:
            case Average.RANK_0:
                return float(times[0])
            case Average.MIN:
                return float(times.min())
            case Average.MAX:
                return float(times.max())
        return float(times.mean())


@dataclass(frozen=True)
class Effort:
    """How often an operation is run, untimed and timed."""

    warmup: int
    iterations: int


def back_to_back(transport: BenchTransport, run: Run, effort: Effort) -> Seconds:
    """Seconds of one operation on each rank, shape (ranks,), from many without a pause.

    As nccl-tests: untimed operations, a barrier, then ``effort.iterations`` operations one after
    the other; the wall time is divided by their number.
    """
    for _ in range(effort.warmup):
        run()
    transport.finish()
    transport.barrier()
    start = clock.now()
    for _ in range(effort.iterations):
        run()
    transport.finish()
    seconds = (clock.now() - start) / effort.iterations
    return transport.gather(np.array(seconds))


def one_by_one(transport: BenchTransport, run: Run, iterations: int) -> Seconds:
    """Seconds of each operation on each rank, shape (ranks, iterations), each after a barrier.

    As OSU 7.4: barriers are not timed, and each rank measures its own time.
    """
    seconds = np.empty(iterations)
    for i in range(iterations):
        transport.barrier()
        start = clock.now()
        run()
        transport.finish()
        seconds[i] = clock.now() - start
    return transport.gather(seconds)
