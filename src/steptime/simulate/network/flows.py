"""Flows: the network model alone: when given messages arrive."""

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.simulate.network.simulator import NetworkSimulator


def finish_times(
    cluster: Cluster, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike, start: ArrayLike
) -> Floats:
    """When each message has arrived, in seconds, shape (messages,).

    ``src``, ``dst``: devices; ``nbytes``: bytes; ``start``: seconds, from 0 on; of one shape.
    Raises UsageError that names a message which cannot be sent.
    """
    return run_flows(cluster, src, dst, nbytes, start)[0]


def run_flows(
    cluster: Cluster, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike, start: ArrayLike
) -> tuple[Floats, NetworkSimulator]:
    """``finish_times``, and the bytes that each link carried."""
    network = NetworkSimulator(cluster)
    first = network.send_all(src, dst, nbytes, start)
    done = network.finish()
    times = np.empty(np.size(src))
    times[done["token"] - first] = done["at"]
    return times, network
