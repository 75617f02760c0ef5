"""Routes: a cache of the paths between devices and of their latencies."""

from typing import TypeAlias

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import NO_LINK, Cluster
from steptime.simulate.network.compiled import in_place, inner

Table: TypeAlias = tuple[Longs, Ints, Floats]
"""Keys of pairs, their paths and latencies; arrays of length 65,536."""

_BITS = 16
_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio: spreads keys evenly (Knuth)


class Routes:
    """A cache in front of a cluster's router.

    It holds at most 65,536 pairs of devices; pairs with the same hash replace each other.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._latency = np.append(cluster.links.latency, 0.0)  # the last: NO_LINK's
        self._keys = np.full(1 << _BITS, -1)
        self._paths = np.full((1 << _BITS, 1), NO_LINK, np.int32)
        self._latencies = np.zeros(1 << _BITS)

    def __call__(self, src: Ints, dst: Ints) -> tuple[Ints, Floats]:
        """Paths, shape (n, hops), and the sums of their latencies in seconds, shape (n,)."""
        paths = np.empty((src.size, self._paths.shape[1]), np.int32)
        latencies, missing = np.empty(src.size), np.empty(src.size, np.int64)
        keys = src.astype(np.int64) * self._cluster.devices + dst
        table = self._keys, self._paths, self._latencies
        count = recall(table, keys, paths, latencies, missing)
        if not count:
            return paths, latencies
        missing = missing[:count]
        fresh = self._cluster.paths(src[missing], dst[missing])
        if fresh.shape[1] > paths.shape[1]:
            paths, self._paths = (_padded(old, fresh.shape[1]) for old in (paths, self._paths))
        fresh = _padded(fresh, paths.shape[1])
        paths[missing] = fresh
        latencies[missing] = self._latency[fresh].sum(axis=1)
        table = self._keys, self._paths, self._latencies
        remember(table, keys, paths, latencies, missing)
        return paths, latencies


def _padded(paths: Ints, hops: int) -> Ints:
    more = hops - paths.shape[1]
    return np.pad(paths, ((0, 0), (0, more)), constant_values=NO_LINK) if more else paths


@inner
def place_of(key: int) -> int:
    """The only place in the table at which a pair of devices can be."""
    return ((key * _SPREAD) >> (64 - _BITS)) & ((1 << _BITS) - 1)


@in_place
def recall(table: Table, keys: Longs, paths: Ints, latencies: Floats, missing: Longs) -> int:
    """Copy the pairs that the table has; puts the numbers of the others into ``missing``.

    Returns how many are missing.
    """
    held, known, sums = table
    count = 0
    for number in range(keys.size):
        place = place_of(keys[number])
        if held[place] == keys[number]:
            latencies[number] = sums[place]
            for hop in range(known.shape[1]):
                paths[number, hop] = known[place, hop]
        else:
            missing[count] = number
            count += 1
    return count


@in_place
def remember(table: Table, keys: Longs, paths: Ints, latencies: Floats, missing: Longs) -> None:
    """Put the missing pairs into the table."""
    held, known, sums = table
    for number in missing:
        place = place_of(keys[number])
        held[place], sums[place] = keys[number], latencies[number]
        for hop in range(known.shape[1]):
            known[place, hop] = paths[number, hop]
