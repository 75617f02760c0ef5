"""Exhibit: a schedule with all that is told about it."""

from dataclasses import dataclass

from steptime.collectives import Algorithm, Schedule
from steptime.collectives.price import Price, price, time
from steptime.units import format_seconds


@dataclass(frozen=True)
class Link:
    """What every message crosses: ``alpha`` seconds, then ``bandwidth`` bytes per second."""

    alpha: float
    bandwidth: float

    def __str__(self) -> str:
        return f"α = {format_seconds(self.alpha)}, {self.bandwidth / 1e9:g} GB/s"


@dataclass(frozen=True)
class Exhibit:
    """A schedule, the algorithm it is of, and what it costs for a vector of ``nbytes``.

    ``seconds`` counts the messages over ``link``, and reductions as free.
    """

    algorithm: Algorithm
    schedule: Schedule
    nbytes: int
    link: Link
    cost: Price
    seconds: float

    @property
    def title(self) -> str:
        """Which collective by which algorithm."""
        return f"{self.schedule.collective.name} {self.schedule.algorithm}"


def exhibit(algorithm: Algorithm, schedule: Schedule, nbytes: int, link: Link) -> Exhibit:
    """Price a schedule of ``algorithm``; a barrier has no vector, so ``nbytes`` is then 0."""
    nbytes = 0 if schedule.collective.name == "barrier" else nbytes
    seconds = time(schedule, nbytes, alpha=link.alpha, beta=1 / link.bandwidth, gamma=0.0)
    cost = price(schedule, nbytes)
    return Exhibit(algorithm, schedule, nbytes, link, cost, seconds)
