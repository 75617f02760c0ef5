"""The best ring over the GPUs, and the slowest pair that it must cross."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Flags, Floats
from steptime.topo.marks import distance
from steptime.topo.topology import Kind, Topology

_MOST_STEPS = 100_000
"""Limit of the search, after which no ring counts as found; real hosts need some hundred."""


@dataclass(frozen=True)
class Ring:
    """A ring over parts, by number, whose slowest pair is as fast as in any ring."""

    order: tuple[int, ...]
    slowest: tuple[int, int]
    rate: float
    """Bytes/s each way between the slowest pair."""

    even: bool
    """Whether every pair of GPUs has that rate."""


def best_ring(topology: Topology, rates: Floats) -> Ring | None:
    """The ring over all GPUs whose slowest pair is the fastest; None for fewer than two GPUs.

    ``rates``: as ``expected`` gives them. Of pairs with equal rates the one that is further apart
    counts as slower.
    """
    gpus = topology.of_kind(Kind.GPU)
    if len(gpus) < 2:
        return None
    among = rates[np.ix_(gpus, gpus)]
    order = _widest(among)
    pairs = [(gpus[a], gpus[b]) for a, b in zip(order, [*order[1:], order[0]], strict=True)]

    def slowness(pair: tuple[int, int]) -> tuple[float, int, int]:
        place, links = distance(topology.marks[pair[0]][pair[1]])
        return float(rates[pair]), -place, -links

    slowest = min(pairs, key=slowness)
    even = len(np.unique(among[np.isfinite(among)])) == 1
    return Ring(tuple(gpus[n] for n in order), slowest, float(rates[slowest]), even)


def _widest(rates: Floats) -> list[int]:
    """The ring over all of ``rates``, shape (n, n), whose least rate is the highest."""
    for least in sorted(set(rates[np.isfinite(rates)].tolist()), reverse=True):
        near = rates >= least
        np.fill_diagonal(near, False)
        found = _ring_in(near, rates)
        if found:
            return found
    return list(range(len(rates)))


def _ring_in(near: Flags, rates: Floats) -> list[int] | None:
    """A ring over all nodes along the edges ``near`` alone, found depth first, or None."""
    count = len(near)
    if count == 2:
        return [0, 1] if near[0, 1] else None
    if (near.sum(axis=1) < 2).any() or not _connected(near):
        return None

    # Fast neighbours first, and among equals those in order: the ring that people expect.
    def choices(n: int) -> Iterator[int]:
        neighbours = np.flatnonzero(near[n]).tolist()
        return iter(sorted(neighbours, key=lambda m: (-rates[n, m], (m - n) % count)))

    path, used, tried = [0], {0}, [choices(0)]
    for _ in range(_MOST_STEPS):
        if len(path) == count and near[path[-1], 0]:
            return path
        following = next((n for n in tried[-1] if n not in used), None)
        if following is not None and len(path) < count:
            path.append(following)
            used.add(following)
            tried.append(choices(following))
        elif len(path) > 1:
            used.discard(path.pop())
            tried.pop()
        else:
            return None
    return None


def _connected(near: Flags) -> bool:
    seen, border = {0}, [0]
    while border:
        fresh = [n for n in np.flatnonzero(near[border.pop()]).tolist() if n not in seen]
        seen.update(fresh)
        border += fresh
    return len(seen) == len(near)
