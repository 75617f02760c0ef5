"""Simulating one collective alone on a cluster."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.collectives.schedule import Schedule
from steptime.simulate.network.series import LinkSeries
from steptime.simulate.network.simulator import NetworkSimulator


@dataclass(frozen=True, eq=False, kw_only=True)
class Carried:
    """The simulation of one collective.

    ``ends``: when each rank was done, in seconds, shape (ranks,); ``seconds``: when the last was.
    ``link_bytes``: shape (links,). ``kept``: its messages, dtype KEPT, if asked for.
    """

    seconds: float
    ends: Floats
    messages: int
    link_bytes: Floats
    link_series: LinkSeries
    kept: NDArray[Any] | None


def carry(
    schedule: Schedule,
    cluster: Cluster,
    devices: ArrayLike,
    nbytes: int,
    *,
    keep_messages: bool = False,
) -> Carried:
    """Simulate a collective on a vector of ``nbytes`` bytes a rank; all ranks start at 0.

    ``devices``: that of each rank, shape (ranks,). Raises UsageError for a link of the cluster with
    impossible figures, and where the concurrent messages do not fit into memory.
    """
    network = NetworkSimulator(cluster, keep_messages=keep_messages)
    token = network.begin(schedule, devices, nbytes)
    for rank in range(schedule.ranks):
        network.enter(token, rank, 0.0)
    done = network.finish()
    ends = np.empty(schedule.ranks)
    ends[done["rank"]] = done["at"]
    return Carried(
        seconds=float(ends.max()),
        ends=ends,
        messages=network.messages,
        link_bytes=network.link_bytes,
        link_series=network.link_series,
        kept=network.kept if keep_messages else None,
    )
