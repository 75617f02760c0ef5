"""The clock that steps are timed by, on an emulated cluster as slow as its links are.

``steptime emulate --time-dilation 50`` makes links 50 times slower than the cluster's. A clock that
goes 50 times slower than time shows on them what the cluster's own show (Gupta et al., "To Infinity
and Beyond: Time-Warped Network Emulation", NSDI 2006).
"""

import os
import time
from collections.abc import Mapping

VARIABLE = "STEPTIME_TIME_DILATION"


def _dilation(environ: Mapping[str, str]) -> float:
    try:
        return max(float(environ.get(VARIABLE, 1.0)), 1e-9)
    except ValueError:
        return 1.0


DILATION = _dilation(os.environ)
"""How many seconds pass in one of the clock's."""


def _now() -> float:
    return time.perf_counter() / DILATION


now = time.perf_counter if DILATION == 1 else _now
"""Seconds since some moment, which all processes of a host share (Linux's CLOCK_MONOTONIC)."""


def sleep(seconds: float) -> None:
    """Sleep for so many seconds of the clock."""
    time.sleep(seconds * DILATION)


class Stretch:
    """Makes what a rank computes last as much longer as links are slower, where they are.

    What a rank computes between two laps takes its thread some processor time; ``lap`` sleeps for
    the rest of the time that this would last by the clock. The processor time, since on a machine
    that plays many hosts their ranks wait for cores. ``core_s``: all of it so far, in seconds, what
    was passed over too.
    """

    def __init__(self) -> None:
        self.core_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Computing begins now."""
        self._own = time.thread_time()
        if DILATION != 1:
            self._wall = time.perf_counter()

    def pass_over(self) -> None:
        """Let what was done since the beginning last as long as it did: it is no computing."""
        self.core_s += time.thread_time() - self._own
        self.begin()

    def lap(self) -> None:
        """Let what was computed since the beginning, or the last lap, last longer."""
        own_s = time.thread_time() - self._own
        self.core_s += own_s
        if DILATION != 1:
            left = DILATION * own_s - (time.perf_counter() - self._wall)
            if left > 0:
                time.sleep(left)
        self.begin()


COMPUTING = Stretch()
"""That of this process, whose main thread computes."""
