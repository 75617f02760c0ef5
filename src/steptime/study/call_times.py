"""What a cluster file says of the calls that were timed: which algorithm their messages go by."""

from collections.abc import Mapping, Sequence

import numpy as np

from steptime.cluster import MESSAGE, POST, CallTimes, Cluster
from steptime.collectives.algorithm import algorithms
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
        found[one.kind] = (*known, _followed(one, cluster))
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
