"""What the calls of a communication library take: closed forms over many calls at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import NO_LINK, Cluster
from steptime.errors import UsageError
from steptime.simulate.nccl import tuning
from steptime.simulate.nccl.constants import Constants
from steptime.simulate.nccl.library import Library, library_of
from steptime.simulate.nccl.tuning import KINDS, PASSES, ROOTED, SPREAD, Groups


@dataclass(frozen=True, kw_only=True)
class Network:
    """What joins devices: ``host_devices`` within a host, and hosts.

    ``inside`` and ``between``: bytes/s that a device sends at within its host, and to others, its
    part of the host's NICs; ``inside_s`` and ``between_s``: the seconds of a path. ``library``:
    NCCL, where the cluster's library it is; else calls are rings of messages over these links.
    """

    host_devices: int
    inside: float
    between: float
    inside_s: float = 3e-6
    between_s: float = 6e-6
    library: Library | None = None


def call_seconds(
    network: Network, kind: str, nbytes: Floats, ranks: Longs, stride: Longs
) -> Floats:
    """What a collective of each row takes, in seconds, shape (calls,).

    ``nbytes``: of the whole vector, as ``bench`` counts. ``ranks``: of a group, whose members are
    ``stride`` ranks apart; all groups like it call at once, each device being in one. By NCCL it is
    the algorithm and the protocol that take the least.

    Raises UsageError where there is no such kind.
    """
    near = np.minimum(ranks, np.maximum(network.host_devices // stride, 1))
    hosts = -(-ranks // near)
    return seconds_on_hosts(network, kind, nbytes, ranks, hosts)


def seconds_on_hosts(
    network: Network, kind: str, nbytes: Floats, ranks: Longs, hosts: Longs
) -> Floats:
    """What a collective of each row takes on groups that lie on so many hosts: shape (calls,)."""
    least = np.stack(list(choices(network, kind, nbytes, ranks, hosts).values())).min(axis=0)
    return np.where(ranks > 1, least, 0.0)


def choices(
    network: Network, kind: str, nbytes: Floats, ranks: Longs, hosts: Longs
) -> dict[str, Floats]:
    """What each algorithm takes that could run a call, in seconds, each shape (calls,)."""
    if kind == "barrier":
        kind, nbytes = "all_reduce", np.zeros_like(nbytes)
    if kind not in KINDS:
        raise UsageError(f"there is no call {kind!r}: choose {', '.join(KINDS)} or barrier")
    members = np.maximum(ranks, 2).astype(np.float64)
    shape = np.broadcast_shapes(nbytes.shape, members.shape, np.shape(hosts))
    groups = Groups(
        nbytes=np.broadcast_to(nbytes, shape),
        ranks=np.broadcast_to(members, shape),
        hosts=np.broadcast_to(np.minimum(hosts, members), shape),
    )
    if network.library is None:
        return {"ring": _plain(network, kind, groups)}
    return tuning.options(network.library, kind, groups)


def message_seconds(network: Network, nbytes: Floats, stride: Longs) -> Floats:
    """What a message to the rank ``stride`` further takes, in seconds; all ranks send at once."""
    across = stride >= network.host_devices
    if network.library is not None:
        return tuning.message(network.library, nbytes, across.astype(np.float64))
    rate = np.where(across, network.between, network.inside)
    return nbytes / rate + np.where(across, network.between_s, network.inside_s)


def held_share(network: Network, kind: str, ranks: Longs, stride: Longs) -> Floats:
    """The part of a device's multiprocessors that a call holds while it runs, shape (calls,).

    A channel is one block on a multiprocessor of its own (a maintainer, NVIDIA/nccl issue 689: 16
    for 190 GB/s over 8 NICs, 2 for one NIC), so a call needs as many as its rate takes: all of them
    for NVLink's. 0 where the library is not known.
    """
    library = network.library
    if library is None or kind not in KINDS:
        return np.zeros(np.shape(ranks))
    near = np.minimum(ranks, np.maximum(network.host_devices // stride, 1))
    members = np.maximum(ranks, 1).astype(np.float64)
    groups = Groups(nbytes=members, ranks=members, hosts=-(-members // near))
    part = tuning.ring_rate(library, groups) / library.ring_rate
    part = np.maximum(part, 2 / library.channels)
    return np.where(ranks > 1, part * library.share, 0.0)


def memory_bytes(kind: str, nbytes: Floats, ranks: Longs) -> Floats:
    """The bytes that a call reads and writes in each rank's memory, shape (calls,).

    Of a ring: to reduce a byte it reads two and writes one, to copy it reads one and writes one.
    """
    moved = nbytes * (ranks - 1) / np.maximum(ranks, 1)
    of_each = {"all_reduce": 5.0, "reduce_scatter": 3.0, "reduce": 3.0}
    return np.asarray(of_each.get(kind, 2.0) * moved)


def network_of(cluster: Cluster, known: Constants | None = None) -> Network:
    """The network of a cluster, by the slowest link on a ring of its first host's devices.

    Where the cluster names NCCL its library is that, unless its links cost nothing at all, as in
    an ideal network. ``known``: other constants than those shipped, to fit them.
    """
    host_devices = cluster.devices // cluster.hosts
    inside, inside_s = _ring(cluster, host_devices)
    far = cluster.hosts > 1
    between, between_s = _path(cluster, [host_devices], [0]) if far else (inside, inside_s)
    if far and cluster.network is not None:
        between *= cluster.network.ends / cluster.devices  # NICs for each device
    costs = np.isfinite(inside if host_devices > 1 else between) or inside_s or between_s
    library = None
    if cluster.nccl is not None and costs:
        library = library_of(
            cluster.nccl,
            inside=inside,
            inside_s=inside_s,
            between=between,
            between_s=between_s,
            known=known,
        )
    return Network(
        host_devices=host_devices,
        inside=inside,
        between=between,
        inside_s=inside_s,
        between_s=between_s,
        library=library,
    )


def _plain(network: Network, kind: str, groups: Groups) -> Floats:
    """Rings of messages, or messages from all to all, over links of one rate and latency."""
    ranks, hosts, near = groups.ranks, groups.hosts, groups.near
    wire = np.minimum(network.between * near, network.inside)
    if kind in SPREAD:
        away = np.maximum(ranks - near, 1) / (ranks - 1)  # of what a rank sends
        wire = np.minimum(network.between / away, network.inside)
    rate = np.where(hosts > 1, wire, network.inside)
    passes = PASSES.get(kind, 1.0)
    share = 1.0 if kind in ROOTED else (ranks - 1) / ranks
    hops = (ranks - hosts) * network.inside_s + (hosts - 1) * network.between_s
    return np.asarray(passes * (share * groups.nbytes / rate + hops), np.float64)


def _ring(cluster: Cluster, host_devices: int) -> tuple[float, float]:
    """The bytes/s of the slowest path of a ring in a host, and the seconds of the longest.

    Of one device infinitely many, and none: it sends nothing.
    """
    at = np.arange(host_devices)
    return _path(cluster, (at + 1) % host_devices, at)


def _path(cluster: Cluster, to: ArrayLike, start: ArrayLike) -> tuple[float, float]:
    """Of some paths the bytes/s of the slowest, and the seconds of the longest."""
    links: Ints = cluster.paths(start, to)
    there = links != NO_LINK
    rates = np.where(there, cluster.links.bandwidth[links], np.inf)
    seconds = np.where(there, cluster.links.latency[links], 0.0).sum(axis=1)
    return float(rates.min(initial=np.inf)), float(seconds.max(initial=0.0))
