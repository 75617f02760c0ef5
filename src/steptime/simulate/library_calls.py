"""Library calls: collectives as NCCL carries them out, priced by closed form for each group."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import Cluster
from steptime.collectives.algorithm import schedule
from steptime.collectives.lookup import find_algorithm
from steptime.collectives.schedule import Schedule
from steptime.collectives.selection import blocks_for
from steptime.errors import UsageError
from steptime.program import Call
from steptime.simulate.nccl import (
    Network,
    message_seconds,
    network_of,
    seconds_on_hosts,
)
from steptime.simulate.nccl.tuning import PASSES
from steptime.simulate.price import Pairs, pairs

_MESSAGES = {
    "all_to_all": "direct",
    "barrier": "dissemination",
    "broadcast": "chain",
    "gather": "flat",
    "reduce": "binomial",
    "scatter": "flat",
}
"""By which algorithm the bytes are counted of what NCCL does not do on rings through all NICs."""


LIBRARY = "NCCL"
"""The name of the library whose calls have closed forms."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What some groups' call sends: ``own``, the numbers of the groups, and their ``sent``."""

    own: Ints
    schedule: Schedule
    sent: Pairs


def library_message_seconds(network: Network, cluster: Cluster, ends: Ints, nbytes: int) -> Floats:
    """What a message takes between each pair of devices, shape (messages, 2), in seconds."""
    across = cluster.host_of[ends[:, 0]] != cluster.host_of[ends[:, 1]]
    far = np.where(across, network.host_devices, 0).astype(np.int64)
    return message_seconds(network, np.full(far.size, float(nbytes)), far)


def library_network(cluster: Cluster) -> Network | None:
    """The network of a cluster whose library is NCCL; None of any other."""
    network = network_of(cluster) if cluster.nccl is not None else None
    return network if network is not None and network.library is not None else None


def by_library(
    cluster: Cluster, network: Network, call: Call, groups: Ints
) -> tuple[list[Carried], Floats] | None:
    """What a call sends on groups of devices, shape (groups, members), and takes, (groups,).

    None where its bytes cannot be counted: its messages are too many.
    """
    patterns, which = _patterns(cluster.host_of[groups].tobytes(), groups.shape[1])
    carried = []
    for number, pattern in enumerate(patterns):
        own = np.flatnonzero(which == number).astype(np.int32)
        with suppress(UsageError):
            sent = _sent(call.kind, call.nbytes, call.root, pattern.tobytes())
            carried.append(Carried(own, *sent))
    if len(carried) < len(patterns):
        return None
    on_hosts = patterns.max(axis=1).astype(np.int64)[which] + 1
    members = np.full(len(groups), groups.shape[1], np.int64)
    nbytes = np.full(len(groups), float(call.nbytes))
    return carried, seconds_on_hosts(network, call.kind, nbytes, members, on_hosts)


@lru_cache(maxsize=32)  # those of a step, for its variations
def _sent(kind: str, nbytes: int, root: int, pattern: bytes) -> tuple[Schedule, Pairs]:
    """The schedule by which the bytes of a call are counted, and these.

    ``pattern``: the host of each rank, as the bytes of Ints.
    """
    hosts = np.frombuffer(pattern, np.int32)
    members = hosts.size
    if kind in PASSES:
        ring = schedule(find_algorithm(kind, "ring"), members)
        return ring, ring_pairs(hosts, PASSES[kind], nbytes)
    named = find_algorithm(kind, _MESSAGES[kind])
    one = schedule(named, members, root=root, blocks=blocks_for(nbytes))
    return one, pairs(one, nbytes)


def ring_pairs(hosts: Ints, passes: float, nbytes: float) -> Pairs:
    """What ranks send each other on rings, one through each NIC, that carry a vector past each.

    ``passes``: how often, but for a rank's own part. ``hosts``: the host of each rank, shape
    (ranks,). Where every host has as many, each ring leaves a host by another of its members, to
    the one in the same place on the next host.
    """
    ranks = hosts.size
    each = passes * nbytes * (ranks - 1) / ranks
    order = np.argsort(hosts, kind="stable").astype(np.int32)
    counts = np.bincount(hosts)
    if counts.size == 1 or (counts != counts[0]).any():
        near, rows = ranks, order[None, :]
    else:
        near, rows = int(counts[0]), order.reshape(counts.size, -1)
    src, dst, share = [], [], []
    if near > 1:
        src.append(rows.ravel())
        dst.append(np.roll(rows, -1, axis=1).ravel())
        share.append(np.full(ranks, 1.0 if len(rows) == 1 else (near - 1) / near))
    if len(rows) > 1:
        src.append(rows.ravel())
        dst.append(np.roll(rows, -1, axis=0).ravel())
        share.append(np.full(ranks, 1 / near))
    return Pairs(
        src=np.concatenate(src),
        dst=np.concatenate(dst),
        nbytes=each * np.concatenate(share),
        messages=passes * ranks * (ranks - 1),
        rounds=passes * (ranks - 1),
    )


@lru_cache(maxsize=8)
def _patterns(hosts: bytes, members: int) -> tuple[Ints, Longs]:
    """How groups lie on hosts, shape (patterns, members), and the pattern of each, (groups,).

    ``hosts``: the host of each member of each group, as the bytes of Ints.
    """
    each = np.frombuffer(hosts, np.int32).reshape(-1, members)
    patterns, which = np.unique(_relabelled(each), axis=0, return_inverse=True)
    return patterns, which.reshape(-1)


def _relabelled(hosts: Ints) -> Ints:
    """Number the hosts of each group, shape (groups, members), in ascending order."""
    ordered = np.sort(hosts, axis=1)
    new = np.zeros(hosts.shape, np.int32)
    new[:, 1:] = np.cumsum(np.diff(ordered, axis=1) > 0, axis=1)
    places = np.argsort(np.argsort(hosts, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(new, places, axis=1))
