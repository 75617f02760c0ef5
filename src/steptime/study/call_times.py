"""What a cluster file says of the calls that were timed: which algorithm their messages go by."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from steptime.cluster import MESSAGE, POST, CallTimes, Cluster
from steptime.collectives.algorithm import algorithms
from steptime.collectives.selection import blocks_for
from steptime.measure.links import Pair
from steptime.simulate.measured import simulated_seconds
from steptime.study.calibrate import Timed


def together(timed: Sequence[Timed]) -> float:
    """Bytes a second of all messages at once: those of the largest."""
    (shift,) = (one for one in timed if one.kind == MESSAGE)
    return shift.ranks * shift.sizes[-1] / shift.seconds[-1]


def busiest(pairs: Sequence[Pair]) -> float:
    """Bytes a second that a rank sends and receives together, the most of its pairs, the median."""
    ranks = {pair.src for pair in pairs}
    most = [max(pair.bidirectional for pair in pairs if pair.src == rank) for rank in ranks]
    return float(np.median(most))


def call_times(timed: Sequence[Timed], cluster: Cluster) -> Mapping[str, tuple[CallTimes, ...]]:
    """The calls by kind, on ``cluster``, whose links are those of the same ranks."""
    found: dict[str, tuple[CallTimes, ...]] = {}
    for one in timed:
        known = found.setdefault(one.kind, ())
        followed = _followed(one, cluster)
        if followed.work and cluster.cores:
            followed = _on_its_links(followed, one.kind, cluster)
        found[one.kind] = (*known, followed)
    return found


def _followed(timed: Timed, cluster: Cluster) -> CallTimes:
    """The times, and the shipped algorithm whose messages, simulated, come closest to them."""

    def times(algorithm: str) -> CallTimes:
        return CallTimes(
            ranks=timed.ranks,
            sizes=timed.sizes,
            seconds=timed.seconds,
            late=timed.late,
            late_beside=timed.late_beside,
            work=timed.work,
            rest=timed.rest,
            algorithm=algorithm,
        )

    if timed.kind in (MESSAGE, POST):
        return times("")

    def distance(one: CallTimes) -> float:
        modelled = [simulated_seconds(cluster, timed.kind, one, size) for size in timed.sizes]
        return float(np.square(np.log(modelled) - np.log(timed.seconds)).sum())

    able = [
        times(algorithm.name)
        for algorithm in algorithms(timed.kind).values()
        if algorithm.serves(timed.ranks) and "hosts" not in algorithm.takes
    ]
    return min(able, key=distance)


def _on_its_links(one: CallTimes, kind: str, cluster: Cluster) -> CallTimes:
    """The same with as much rest as the latencies of its messages are, at the cost of its work.

    To wake a thread is work of a core and latency of a link as well, and counts once.
    """
    crowding = max(1.0, cluster.devices // one.ranks * one.ranks / cluster.cores)
    parts = []
    for nbytes, work, rest in zip(one.sizes, one.work, one.rest, strict=True):
        blocks = blocks_for(round(nbytes))
        least = simulated_seconds(cluster, kind, one, one.ranks, blocks=blocks)
        more = max(least - rest, 0.0)
        parts.append((max(work - more / crowding, 0.0), rest + more))
    works, rests = zip(*parts, strict=True)
    return replace(one, work=works, rest=rests)
