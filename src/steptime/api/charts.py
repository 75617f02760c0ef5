"""Time against size, of the algorithms of a collective."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from steptime.api.pictures import ALPHA, BANDWIDTH, Named, cluster_of, hosts_of_ranks, link_of
from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.collectives.algorithm import Algorithm
from steptime.collectives.lookup import find_algorithms, is_own
from steptime.collectives.price import times
from steptime.collectives.schedule import Schedule
from steptime.collectives.verification import check_right, safe_schedule
from steptime.errors import UsageError
from steptime.limits import check_within
from steptime.report.crossover import Chart
from steptime.report.crossover import chart as drawn
from steptime.simulate.carry import carry

_MOST_RANKS = 2048
"""Of a chart: each algorithm is made for them many times over."""


def chart(
    *algorithms: Named,
    collective: str | None = None,
    ranks: int = 8,
    root: int = 0,
    hosts: int | None = None,
    alpha: str = ALPHA,
    bandwidth: str = BANDWIDTH,
    cluster: Cluster | str | Path | None = None,
) -> Chart:
    """Time against size of algorithms, with the sizes where another one becomes the fastest.

    ``algorithms`` and the others as in ``show``; the name of a collective stands for all that can
    serve the ranks. Computed of ``alpha`` and ``bandwidth``, or simulated on a ``cluster``, whose
    links take their place.

    Raises UsageError where ``show`` does, and SteptimeError where one of your own is wrong.
    """
    check_within("--ranks of a chart", ranks, 1, _MOST_RANKS)
    link = link_of(alpha, bandwidth)
    place = None if cluster is None else cluster_of(cluster)
    if place is not None and (alpha, bandwidth) != (ALPHA, BANDWIDTH):
        raise UsageError(
            "--chart with --cluster is simulated on its links: drop --alpha and --bandwidth"
        )
    on = hosts_of_ranks(ranks, hosts, place)
    found = _serving(algorithms, collective, ranks)
    for algorithm in found if any(is_own(str(name)) for name in algorithms) else ():
        check_right(algorithm, ranks, root=root)

    def made(algorithm: Algorithm, parts: int) -> Schedule:
        return safe_schedule(algorithm, ranks, root=root, hosts=on, blocks=parts)

    if place is None:

        def computed(schedule: Schedule, sizes: Sequence[int]) -> Floats:
            return times(schedule, sizes, link.alpha, 1 / link.bandwidth)

        return drawn(found, made, computed, ranks=ranks, source="computed", where=str(link))
    devices = place.placed(ranks)

    def simulated(schedule: Schedule, sizes: Sequence[int]) -> Floats:
        return np.array([carry(schedule, place, devices, size).seconds for size in sizes])

    return drawn(found, made, simulated, ranks=ranks, source="simulated", where=place.title)


def _serving(names: Iterable[Named], collective: str | None, ranks: int) -> list[Algorithm]:
    """The algorithms that are named: of a collective and of a file those that serve the ranks."""
    found: dict[str, Algorithm] = {}
    for name in names:
        if isinstance(name, Algorithm):
            found[name.name] = name
            continue
        several = find_algorithms(str(name), collective)
        whole = is_own(str(name)) or name == several[0].collective.name
        chosen = [a for a in several if a.serves(ranks)] if whole else several[:1]
        found |= {algorithm.name: algorithm for algorithm in chosen}
    if not found:
        words = ",".join(map(str, names))
        raise UsageError(f"no algorithm of {words} can serve {ranks} ranks: name another number")
    return list(found.values())
