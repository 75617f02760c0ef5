"""Measured calls: the effective bytes that make a simulated call take its measured time.

A library's call takes more than its messages: it copies, wakes threads and, where ranks share
cores, waits for them. Concurrent calls share that work as they share the links. So a call counts as
so many bytes as make its simulation, alone, take as long as was measured.
"""

from collections.abc import Sequence
from functools import partial
from math import log

import numpy as np

from steptime.cluster import MESSAGE, CallTimes, Cluster
from steptime.collectives.algorithm import schedule
from steptime.collectives.lookup import find_algorithm
from steptime.collectives.selection import blocks_for
from steptime.program import Call
from steptime.simulate.carry import carry
from steptime.simulate.price import message_seconds


def library_algorithm(cluster: Cluster, kind: str, ranks: int) -> str:
    """The algorithm that the cluster's library uses for a collective; empty where unknown.

    Raises UsageError where no such algorithm is shipped.
    """
    measured = nearest(cluster.calls.get(kind, ()), ranks)
    if measured is None or not measured.algorithm:
        return ""
    algorithm = find_algorithm(kind, measured.algorithm)
    return algorithm.name if algorithm.serves(ranks) else ""


def effective_bytes(cluster: Cluster, call: Call, ranks: int, *, at_rest: bool = False) -> int:
    """The bytes that a call among so many ranks counts as; its own where none was measured.

    With so many bytes its messages, simulated alone, take the measured time. ``at_rest``: where
    that is in the program, as work of cores and rest, they count as nothing but their latencies.
    """
    measured = nearest(cluster.calls.get(call.kind or MESSAGE, ()), ranks)
    if measured is None or measured.ranks > cluster.devices or not call.nbytes:
        return call.nbytes
    if at_rest and measured.work:
        return 1
    kind, blocks = call.kind or MESSAGE, blocks_for(call.nbytes)
    alone = partial(simulated_seconds, cluster, kind, measured, blocks=blocks)
    # What it takes is a line in the bytes, or nearly.
    least = alone(measured.ranks)
    slope = (alone(call.nbytes) - least) / call.nbytes
    if slope <= 0:
        return call.nbytes
    return max(round((measured.at(call.nbytes) - least) / slope), 1)


def simulated_seconds(
    cluster: Cluster, kind: str, measured: CallTimes, nbytes: int, *, blocks: int | None = None
) -> float:
    """The simulated time of a call alone on as many ranks as it was measured on.

    ``blocks``: into how many a pipelined algorithm cuts the vector; None: as its bytes say.
    """
    devices = np.arange(measured.ranks, dtype=np.int32)
    if kind == MESSAGE:
        return float(message_seconds(cluster, devices, np.roll(devices, -1), nbytes).max())
    algorithm = find_algorithm(kind, measured.algorithm)
    one = schedule(algorithm, measured.ranks, blocks=blocks or blocks_for(nbytes))
    return carry(one, cluster, devices, nbytes).seconds


def nearest(measured: Sequence[CallTimes], ranks: int) -> CallTimes | None:
    """The measured times on the number of ranks nearest to ``ranks``, by their ratio."""
    return min(measured, key=lambda one: abs(log(one.ranks / ranks)), default=None)
