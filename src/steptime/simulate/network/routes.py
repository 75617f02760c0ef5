"""Routes: a cache of the paths between devices and of their latencies."""

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import NO_LINK, Cluster

_BITS = 16
_MOST_HELD = 1 << 20  # paths of what was asked for at a time: some 40 MB
_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio: spreads keys evenly (Knuth)


class Routes:
    """A cache in front of a cluster's router.

    It remembers what was asked for at a time, as the messages of a collective of one group are each
    time that it is called; and, for what is asked for in other company, at most 65,536 pairs of
    devices, of which those with the same hash replace each other.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._latency = np.append(cluster.links.latency, 0.0)  # the last: NO_LINK's
        self._keys = np.full(1 << _BITS, -1)
        self._paths = np.full((1 << _BITS, 1), NO_LINK, np.int32)
        self._latencies = np.zeros(1 << _BITS)
        self._asked: dict[bytes, tuple[Ints, Floats]] = {}
        self._held = 0

    def __call__(self, src: Ints, dst: Ints) -> tuple[Ints, Floats]:
        """Paths, shape (n, hops), and the sums of their latencies in seconds, shape (n,)."""
        asked = src.tobytes() + dst.tobytes()
        if asked not in self._asked:
            self._held += src.size
            if self._held > _MOST_HELD:
                self._asked.clear()
                self._held = src.size
            self._asked[asked] = self._looked_up(src, dst)
        return self._asked[asked]

    def _looked_up(self, src: Ints, dst: Ints) -> tuple[Ints, Floats]:
        keys = src.astype(np.int64) * self._cluster.devices + dst
        places = _places(keys)
        paths, latencies = self._paths[places], self._latencies[places]
        missing = np.flatnonzero(self._keys[places] != keys)
        if not missing.size:
            return paths, latencies
        fresh = self._cluster.paths(src[missing], dst[missing])
        if fresh.shape[1] > paths.shape[1]:
            paths, self._paths = (_padded(old, fresh.shape[1]) for old in (paths, self._paths))
        fresh = _padded(fresh, paths.shape[1])
        sums = self._latency[fresh].sum(axis=1)
        paths[missing], latencies[missing] = fresh, sums
        places = places[missing]
        self._keys[places], self._paths[places] = keys[missing], fresh
        self._latencies[places] = sums
        return paths, latencies


def _padded(paths: Ints, hops: int) -> Ints:
    more = hops - paths.shape[1]
    return np.pad(paths, ((0, 0), (0, more)), constant_values=NO_LINK) if more else paths


def _places(keys: Longs) -> Longs:
    """The only place in the table at which each pair of devices can be, shape (n,)."""
    return ((keys * _SPREAD) >> (64 - _BITS)) & ((1 << _BITS) - 1)
