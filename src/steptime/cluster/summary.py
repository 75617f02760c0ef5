"""Summary: what a cluster is made of, as figures to print."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import NO_LINK, Cluster, Fabric


@dataclass(frozen=True)
class LinkGroup:
    """Links of one label. ``where``: ``host`` or ``network``.

    ``bandwidth`` in bytes/s and ``latency`` in seconds are the least and the largest of them.
    """

    where: str
    label: str
    number: int
    bandwidth: tuple[float, float]
    latency: tuple[float, float]


@dataclass(frozen=True)
class PathGroup:
    """Devices that a message from device 0 reaches over equal paths.

    ``by``: the kinds of link on the path, ``links`` their number, ``latency`` its latency in
    seconds and ``bandwidth`` its bandwidth in bytes/s for one message alone.
    """

    devices: int
    by: tuple[str, ...]
    links: int
    latency: float
    bandwidth: float


def link_groups(cluster: Cluster) -> list[LinkGroup]:
    """All links of a cluster, those of all hosts together."""
    return [*_groups(cluster, cluster.inside), *_groups(cluster, cluster.network)]


def path_groups(cluster: Cluster) -> list[PathGroup]:
    """The paths from device 0 to each other device, grouped, the nearest first."""
    others = np.arange(1, cluster.devices, dtype=np.int32)
    if not others.size:
        return []
    paths = cluster.paths(np.zeros_like(others), others)
    taken = paths != NO_LINK
    latency = np.where(taken, cluster.links.latency[paths], 0).sum(axis=1)
    bandwidth = np.where(taken, cluster.links.bandwidth[paths], np.inf).min(axis=1, initial=np.inf)
    names, kind = _kinds(cluster)
    by = np.bitwise_or.reduce(np.where(taken, 1 << kind[paths], 0), axis=1)
    figures = np.stack([latency.round(12), taken.sum(axis=1), by, bandwidth], axis=1)
    groups, count = np.unique(figures, axis=0, return_counts=True)
    return [
        PathGroup(
            number,
            tuple(name for bit, name in enumerate(names) if int(by) >> bit & 1),
            int(links),
            seconds,
            rate,
        )
        for (seconds, links, by, rate), number in zip(groups.tolist(), count.tolist(), strict=True)
    ]


def stem(label: str) -> str:
    """A link's label without its direction."""
    first, _, direction = label.rpartition(" ")
    return first if direction in ("up", "down", "forward", "backward") else label


def _kinds(cluster: Cluster) -> tuple[list[str], Ints]:
    """The kinds of links, by name, and the kind of each link, shape (links,)."""
    names: list[str] = []
    kinds: list[Ints] = []
    for fabric, times in ((cluster.inside, cluster.hosts), (cluster.network, 1)):
        if fabric:
            stems = [stem(label) for label, _ in fabric.labels]
            names += [name for name in dict.fromkeys(stems) if name not in names]
            numbers = [names.index(name) for name in stems]
            each = np.repeat(numbers, [number for _, number in fabric.labels])
            kinds.append(np.tile(each, times).astype(np.int32))
    return names, np.concatenate(kinds)


def _groups(cluster: Cluster, fabric: Fabric | None) -> Iterator[LinkGroup]:
    if fabric is None:
        return
    inside = fabric is cluster.inside
    hosts = cluster.hosts if inside else 1
    first = 0 if inside else cluster.links.bandwidth.size - fabric.links.bandwidth.size
    for label, number in fabric.labels:
        part = slice(first, first + number)
        bandwidth, latency = cluster.links.bandwidth[part], cluster.links.latency[part]
        first += number
        yield LinkGroup(
            "host" if inside else "network",
            label,
            number * hosts,
            (float(bandwidth.min()), float(bandwidth.max())),
            (float(latency.min()), float(latency.max())),
        )
