"""Crossover: the fastest algorithm of a collective at each size, and what bounds it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log2
from typing import TypeAlias

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.algorithm import Algorithm
from steptime.collectives.schedule import Schedule
from steptime.collectives.selection import Choice, Selection, blocks_for

Times: TypeAlias = Callable[[Schedule, Sequence[int]], Floats]
"""The seconds that a schedule takes for vectors of some sizes in bytes, shape (sizes,)."""

SIZES = tuple(round(2 ** (half / 2)) for half in range(2 * 8, 2 * 30 + 1))
"""256 B to 1 GiB, two for each doubling."""

_KEPT_BITS = 5
TIE = 1e-9  # relative: sums in another order are no other time


@dataclass(frozen=True, eq=False)
class Curve:
    """The time of one algorithm for vectors of some sizes, in seconds, shape (sizes,).

    ``latency`` is the part that is left when every message is empty; the rest is for its bytes.
    """

    seconds: Floats
    latency: Floats

    def half(self, sizes: Sequence[int]) -> float | None:
        """The size from which bytes take longer than latency: 0 at all sizes, None at none."""
        excess = self.seconds - 2 * self.latency
        above = np.flatnonzero(excess >= 0)
        if not above.size:
            return None
        if above[0] == 0:
            return 0.0
        at = int(above[0])
        return float(np.interp(0, excess[at - 1 : at + 1], sizes[at - 1 : at + 1]))


def curve(
    algorithm: Algorithm,
    made: Callable[[Algorithm, int], Schedule],
    times: Times,
    sizes: Sequence[int] = SIZES,
) -> Curve:
    """The curve of an algorithm; ``made`` makes its schedule for a number of blocks.

    A pipelined algorithm gets as many blocks as the backend takes for a size.
    """
    pipelined = "blocks" in algorithm.takes
    seconds, latency = [], []
    for blocks, group in groupby(sizes, lambda size: blocks_for(size) if pipelined else 1):
        some = list(group)
        found = times(made(algorithm, blocks), [0, *some])
        seconds.append(found[1:])
        latency.append(np.full(len(some), found[0]))
    return Curve(np.concatenate(seconds), np.concatenate(latency))


def fastest(
    collective: str, curves: Mapping[str, Curve], sizes: Sequence[int] = SIZES
) -> tuple[Selection, list[float]]:
    """The fastest algorithm at each size, and the sizes where another one becomes it.

    Times are interpolated linearly between two sizes, as they are under alpha and beta for a given
    schedule. The ends of the ranges in the selection are these sizes, rounded to a few bits. Of
    algorithms that are equally fast the first is taken, and kept while none beats it.
    """
    names = list(curves)
    times = np.stack([curves[name].seconds for name in names])
    now = int(times[:, 0].argmin())
    changes: list[tuple[float, int]] = []
    for at in range(len(sizes) - 1):
        for share, after in _overtaken(times[:, at], times[:, at + 1], now):
            changes.append((sizes[at] + share * (sizes[at + 1] - sizes[at]), after))
            now = after
    first = int(times[:, 0].argmin())
    starts = [(0, first), *((rounded(size), name) for size, name in changes)]
    ends = [*(start for start, _ in starts[1:]), None]
    kept = [at for at, (start, _) in enumerate(starts) if start != ends[at]]
    choices = tuple(Choice(names[starts[at][1]], starts[at][0], ends[at]) for at in kept)
    return Selection(collective, choices), [changes[at - 1][0] for at in kept if at]


def _overtaken(left: Floats, right: Floats, now: int) -> list[tuple[float, int]]:
    """The crossings between two sizes: where, as a fraction of the way, and the new fastest."""
    found = []
    slopes, share = right - left, 0.0
    while right[now] > right.min() * (1 + TIE):
        gain = slopes[now] - slopes
        ahead = np.where(gain > 0, (left - left[now]) / np.where(gain > 0, gain, 1), np.inf)
        ahead[ahead < share] = np.where(gain > 0, share, np.inf)[ahead < share]
        share = float(ahead.min())
        if not share <= 1:
            break
        tied = np.flatnonzero(ahead <= share)
        now = int(tied[slopes[tied].argmin()])
        found.append((share, now))
    return found


def rounded(size: float) -> int:
    """A size rounded to a few leading bits, for people to read."""
    step = 1 << max(0, int(log2(max(size, 1))) - _KEPT_BITS)
    return round(size / step) * step
