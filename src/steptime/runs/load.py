"""What the cores that this process may use did meanwhile: for it, for others, for other guests."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq: proc(5); guests are counted in user
_STEAL = 7


@dataclass(frozen=True, kw_only=True)
class CpuTime:
    """Seconds since some time: of the clock, and of computing, over all ``cores`` together.

    ``own``: of this process's threads. ``busy``: of all processes, and ``stolen``: withheld by a
    hypervisor, on the cores that this process may use; None where the system does not tell.
    """

    cores: frozenset[int]
    wall: float
    own: float
    busy: float | None
    stolen: float | None

    def since(self, before: "CpuTime") -> "CpuTime":
        """What was added since ``before``."""
        told = None not in (self.busy, before.busy, self.stolen, before.stolen)
        return CpuTime(
            cores=self.cores,
            wall=self.wall - before.wall,
            own=self.own - before.own,
            busy=(self.busy or 0.0) - (before.busy or 0.0) if told else None,
            stolen=(self.stolen or 0.0) - (before.stolen or 0.0) if told else None,
        )


def cpu_time(stat: Path = _STAT) -> CpuTime:
    """The CPU time so far; a reading is good to a hundredth of a second."""
    cores = frozenset(os.sched_getaffinity(0))
    busy = stolen = None
    try:
        counts = _ticks(stat.read_text(), cores)
    except (OSError, ValueError, IndexError):
        counts = []
    if counts:
        second = os.sysconf("SC_CLK_TCK")
        busy = sum(row[at] for row in counts for at in _BUSY) / second
        stolen = sum(row[_STEAL] for row in counts) / second
    return CpuTime(
        cores=cores, wall=time.perf_counter(), own=time.process_time(), busy=busy, stolen=stolen
    )


def _ticks(stat: str, cores: frozenset[int]) -> list[list[int]]:
    """The counts of each of these cores, as /proc/stat has them."""
    rows = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    return [[int(n) for n in row[1:]] for row in rows if row[0][3:] in set(map(str, cores))]


def load_by_others(ranks: list[tuple[str, CpuTime]]) -> tuple[float, float] | None:
    """Cores that other processes kept busy on the host where they kept the most, and withheld ones.

    ``ranks``: host and CPU time of every rank of this run over the same time. Ranks that may use
    the same cores share one count of them. None where the system does not tell.
    """
    hosts: dict[str, list[float]] = {}
    places: dict[tuple[str, frozenset[int]], list[CpuTime]] = {}
    for host, spent in ranks:
        places.setdefault((host, spent.cores), []).append(spent)
    for (host, _), spents in places.items():
        one = spents[0]
        if one.busy is None or one.stolen is None or one.wall <= 0:
            return None
        others = max(0.0, one.busy - sum(spent.own for spent in spents)) / one.wall
        of_host = hosts.setdefault(host, [0.0, 0.0])
        of_host[0] += others
        of_host[1] += one.stolen / one.wall
    most = max(hosts.values(), key=sum)
    return most[0], most[1]
