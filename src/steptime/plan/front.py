"""The Pareto front: what nothing else beats in both of two costs."""

import numpy as np

from steptime.arrays import Flags, Floats, Longs


def pareto(first: Floats, second: Floats) -> Longs:
    """The places that no other beats in both, in ascending order of ``first``, shape (front,).

    Of several that are alike the first one is there.
    """
    order = np.lexsort((np.arange(first.size), second, first))
    lowest = np.minimum.accumulate(np.concatenate([[np.inf], second[order][:-1]]))
    return np.asarray(order[second[order] < lowest], np.int64)


class Front:
    """A front that grows: memory in bytes against seconds."""

    def __init__(self) -> None:
        self._bytes: Floats = np.empty(0)
        self._seconds: Floats = np.empty(0)

    def add(self, nbytes: Floats, seconds: Floats) -> None:
        """Let points join where nothing beats them; what they beat leaves."""
        every = np.concatenate([self._bytes, nbytes]), np.concatenate([self._seconds, seconds])
        kept = pareto(*every)
        self._bytes, self._seconds = every[0][kept], every[1][kept]

    def may_join(self, nbytes: Floats, least: Floats) -> Flags:
        """Which points, of ``least`` seconds or more, nothing that is as lean certainly beats."""
        leaner = np.searchsorted(self._bytes, nbytes, side="right")
        bars = np.concatenate([[np.inf], self._seconds])
        return np.asarray(least <= bars[leaner])
