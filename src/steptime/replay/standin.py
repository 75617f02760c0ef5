"""What stands in for computing: sleeping, products of matrices that keep a core busy, nothing."""

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeAlias

import numpy as np

Poll: TypeAlias = Callable[[], bool]
"""Sees to the communication under way; whether there is any that it must see to again."""

StandIn: TypeAlias = Callable[[float, Poll], None]
"""Computes for so many seconds, and polls now and then."""

Kind: TypeAlias = Literal["sleep", "busy", "nothing"]

_SET_TIMER_SLACK = 29  # PR_SET_TIMERSLACK of prctl(2), in nanoseconds
_SLICE_S = 0.5e-3
_WIDTH = 96  # of the matrices: 110 kB in all, which a core's own cache holds
_BURSTS = 30


def nothing(seconds: float, poll: Poll) -> None:
    """Computing takes no time."""


def sleep_exactly() -> None:
    """Have Linux end this thread's sleeping when it should, not up to 50 µs later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def sleep(seconds: float, poll: Poll) -> None:
    """Leave the core to others for ``seconds``."""
    end = time.perf_counter() + seconds
    while (rest := end - time.perf_counter()) > 0:
        time.sleep(min(rest, _SLICE_S) if poll() else rest)


def busy() -> StandIn:
    """As many products of matrices as this core does in the time when nothing else runs on it.

    Where ranks share a core it takes longer, as computing would.
    """
    left, right, product = (np.full((_WIDTH, _WIDTH), 1.0, np.float32) for _ in range(3))

    def multiply(times: int) -> None:
        for _ in range(times):
            np.matmul(left, right, out=product)

    each_s = _shortest(lambda: multiply(1))
    slice_ = max(1, int(_SLICE_S / each_s))

    def work(seconds: float, poll: Poll) -> None:
        left_to_do = round(seconds / each_s)
        while left_to_do > 0:
            multiply(min(slice_, left_to_do))
            left_to_do -= slice_
            poll()

    return work


def _shortest(run: Callable[[], None]) -> float:
    """The least of some runs, which no other process can have interrupted."""
    run()
    shortest = float("inf")
    for _ in range(_BURSTS):
        start = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest
