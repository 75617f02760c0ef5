"""Cores that ranks share: what computes on a host of a CPU gets its cores in turns.

The ranks of a machine may be more than its cores, and beside each a library has threads of its own,
which copy, add up and pass messages on. The engine hands out the cores to them all (cores.c).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Floats, Ints, Longs
from steptime.cluster import Cluster
from steptime.program import Program


class Cores(NamedTuple):
    """The cores of all hosts, and what the streams of ranks do with them.

    ``host_of``: the host of each rank, shape (ranks,); empty, as all else, where every rank has a
    core of its own. Of each host: how many ``cores`` it has and how many of them run something,
    ``since`` when, and whether that has ``changed`` since the agenda was told. Of each stream of
    all ranks: the seconds that its op has ``left``, and of its ``slice``, before others get a turn;
    when it ``asked`` for a core, and its ``state``, which the engine numbers.
    """

    host_of: Ints
    cores: Longs
    running: Longs
    since: Floats
    changed: Flags
    left: Floats
    slice: Floats
    asked: Floats
    state: NDArray[np.int8]


def are_shared(program: Program, cluster: Cluster) -> bool:
    """Whether what the program computes shares the cores of the cluster's hosts.

    It does where both know: of the one what a core needs for it, of the other how many there are.
    """
    return program.on_cores and cluster.cores > 0


def crowding(cluster: Cluster, devices: Ints) -> Floats:
    """Ranks for each core of the host of each rank, 1 at least, shape (ranks,)."""
    hosts = cluster.host_of[devices]
    return np.asarray(np.maximum(np.bincount(hosts)[hosts] / cluster.cores, 1.0))


def no_cores() -> Cores:
    """None are shared."""
    return _of(np.empty(0, np.int32), np.empty(0, np.int64), 0)


def idle_cores(cluster: Cluster, devices: Ints, streams: int) -> Cores:
    """Those of the cluster, for ranks on ``devices``, shape (ranks,), each of so many streams.

    A host has at least one.
    """
    hosts = cluster.host_of[devices].astype(np.int32)
    each = np.full(int(hosts.max()) + 1, max(1, int(cluster.cores)))
    return _of(hosts, each, hosts.size * streams)


def _of(host_of: Ints, cores: Longs, streams: int) -> Cores:
    return Cores(
        host_of=host_of,
        cores=cores,
        running=np.zeros(cores.size, np.int64),
        since=np.zeros(cores.size),
        changed=np.zeros(cores.size, np.bool_),
        left=np.zeros(streams),
        slice=np.zeros(streams),
        asked=np.zeros(streams),
        state=np.zeros(streams, np.int8),
    )
