"""Stand-ins for computing: sleeping, matrix products that keep a core busy, or nothing."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import numpy as np

from steptime import clock

Poll: TypeAlias = Callable[[], bool]
"""Makes communication progress; returns whether any is left that needs polling."""

Rest: TypeAlias = Callable[[float], None]
"""Sleeps for so many seconds of the clock, or less if communication may go on before."""

StandIn: TypeAlias = Callable[[float, Poll, Rest], None]
"""Stands in for so many seconds of computing, seeing to communication now and then."""

_SET_TIMER_SLACK = 29  # PR_SET_TIMERSLACK of prctl(2), in nanoseconds
_SLICE_S = 0.5e-3 / clock.DILATION  # of the machine's own time, however slow the clock is
_WIDTH = 96  # of the matrices: 110 kB in all, which a core's own cache holds
_BURSTS = 30


def nothing(seconds: float, poll: Poll, rest: Rest) -> None:
    """The stand-in that takes no time."""


def sleep_exactly() -> None:
    """Have Linux wake this thread in time, not up to 50 µs late."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def sleep(seconds: float, poll: Poll, rest: Rest) -> None:
    """The stand-in that sleeps, which leaves the core to others."""
    end = clock.now() + seconds
    while (left := end - clock.now()) > 0:
        (rest if poll() else clock.sleep)(left)


def busy() -> StandIn:
    """A stand-in that runs the matrix products which this core, otherwise idle, does in the time.

    Where ranks share a core it takes longer, as computing would.
    """
    left, right, product = (np.full((_WIDTH, _WIDTH), 1.0, np.float32) for _ in range(3))

    def multiply(times: int) -> None:
        for _ in range(times):
            np.matmul(left, right, out=product)

    each_s = _shortest(lambda: multiply(1))
    slice_ = max(1, int(_SLICE_S / each_s))

    def work(seconds: float, poll: Poll, _: Rest) -> None:
        left_to_do = round(seconds / each_s)
        while left_to_do > 0:
            multiply(min(slice_, left_to_do))
            left_to_do -= slice_
            poll()

    return work


def _shortest(run: Callable[[], None]) -> float:
    """The least time of some runs, which presumably no other process interrupted."""
    run()
    shortest = float("inf")
    for _ in range(_BURSTS):
        start = clock.now()
        run()
        shortest = min(shortest, clock.now() - start)
    return shortest
