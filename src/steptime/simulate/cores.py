"""Cores that ranks share: what computes at one time on a host of a CPU shares its cores.

The ranks of a machine may be more than its cores, and beside each a library has threads of its own,
which copy, add up and pass messages on. All get equal parts of the cores, none more than one: the
engine runs them so (cores.c).
"""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Flags, Floats, Ints, Longs
from steptime.cluster import Cluster
from steptime.program import Program


class Cores(NamedTuple):
    """The cores of all hosts, and what the streams of ranks compute there.

    ``host_of``: the host of each rank, shape (ranks,); empty, as all else, where every rank has a
    core of its own. Of each host: how many ``cores`` it has, how many streams are
    ``computing``, ``since`` when, and whether their number has ``changed`` since the agenda was
    told. ``left``: the seconds of a core that the op of each stream still needs, 0 where it needs
    none, shape (streams of all ranks,).
    """

    host_of: Ints
    cores: Floats
    computing: Longs
    since: Floats
    changed: Flags
    left: Floats


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
    return _of(np.empty(0, np.int32), np.empty(0), 0)


def idle_cores(cluster: Cluster, devices: Ints, streams: int) -> Cores:
    """Those of the cluster, for ranks on ``devices``, shape (ranks,), each of so many streams."""
    hosts = cluster.host_of[devices].astype(np.int32)
    each = np.full(int(hosts.max()) + 1, cluster.cores)
    return _of(hosts, each, hosts.size * streams)


def _of(host_of: Ints, cores: Floats, streams: int) -> Cores:
    return Cores(
        host_of=host_of,
        cores=cores,
        computing=np.zeros(cores.size, np.int64),
        since=np.zeros(cores.size),
        changed=np.zeros(cores.size, np.bool_),
        left=np.zeros(streams),
    )
