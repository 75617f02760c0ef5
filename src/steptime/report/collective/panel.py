"""A schedule with all that is told about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from steptime.cluster import Cluster
from steptime.collectives import Algorithm, Finding, Round, Schedule
from steptime.collectives.price import Price, price, time
from steptime.errors import UsageError
from steptime.report.collective.schedule_timeline import ScheduleTimeline, schedule_timeline
from steptime.units import format_seconds

_MOST_TRANSFERS = 4_000_000  # a ring of 1,024 ranks has half as many


@dataclass(frozen=True)
class Link:
    """What every message crosses: ``alpha`` seconds, then ``bandwidth`` bytes per second."""

    alpha: float
    bandwidth: float

    def __str__(self) -> str:
        return f"α = {format_seconds(self.alpha)}, {self.bandwidth / 1e9:g} GB/s"


@dataclass(frozen=True)
class Panel:
    """A schedule, the algorithm it is of, and what it costs for a vector of ``nbytes``.

    ``seconds`` counts the messages over ``link``, and reductions as free. ``timeline`` is how it
    goes on a cluster, where one is given. ``findings`` are what its proof found to be wrong, and
    None where it was not proved.
    """

    algorithm: Algorithm
    schedule: Schedule
    nbytes: int
    link: Link
    cost: Price
    seconds: float
    timeline: ScheduleTimeline | None = None
    findings: tuple[Finding, ...] | None = None

    @property
    def title(self) -> str:
        """Which collective by which algorithm."""
        return f"{self.schedule.collective.name} {self.schedule.algorithm}"


def panel(
    algorithm: Algorithm,
    schedule: Schedule,
    nbytes: int,
    link: Link,
    cluster: Cluster | None = None,
    findings: tuple[Finding, ...] | None = None,
) -> Panel:
    """Price a schedule of ``algorithm``, and simulate it on a cluster where there is one.

    A wrong one ends where it names what is no rank or no slot. A barrier has no vector, so
    ``nbytes`` is then 0. Raises UsageError for more transfers than can be shown, and for more ranks
    than the cluster has places.
    """
    _check_size(schedule)
    if findings:
        schedule = replace(schedule, generate=partial(_possible, schedule))
    nbytes = 0 if schedule.collective.name == "barrier" else nbytes
    seconds = time(schedule, nbytes, alpha=link.alpha, beta=1 / link.bandwidth, gamma=0.0)
    cost = price(schedule, nbytes)
    simulated = schedule_timeline(schedule, cluster, nbytes) if cluster else None
    return Panel(algorithm, schedule, nbytes, link, cost, seconds, simulated, findings)


def _possible(schedule: Schedule) -> Iterator[Round]:
    """The rounds up to the first with a transfer between what are no ranks or no slots."""
    for transfers in schedule.rounds():
        possible = transfers["first"] >= 0
        for end, start in (("src", "first"), ("dst", "into")):
            possible &= (transfers[end] >= 0) & (transfers[end] < schedule.ranks)
            last = transfers[start] + transfers["count"]
            possible &= (transfers[start] >= 0) & (last <= schedule.slots)
        yield transfers[possible]
        if not possible.all():
            return


def _check_size(schedule: Schedule) -> None:
    transfers = 0
    for one_round in schedule.rounds():
        transfers += one_round.size
        if transfers > _MOST_TRANSFERS:
            raise UsageError(
                f"the {schedule.algorithm} of {schedule.ranks:,} ranks has more than "
                f"{_MOST_TRANSFERS:,} transfers, too many to show: ask for fewer ranks or blocks"
            )
