"""How sure a ratio of step times is.

The steps of a run follow one another and resemble their neighbours, and equal runs differ as
wholes: where their memory lies and which core runs what is drawn once a start (Georges, Buytaert
and Eeckhout, "Statistically rigorous Java performance evaluation", OOPSLA 2007; Kalibera and Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013). A test that takes steps for independent
finds differences between equal runs. So the unit is the run wherever there are several, and its
figure is the median of its steps, since one hiccup of the machine moves a mean by more than any
change that is looked for:

- pairs of runs that took turns: Student's t on the differences of their logarithms, which a machine
  that drifts slowly does not disturb;
- several independent runs of each: Welch's t on their logarithms;
- one run of each: batch means, Student's t on the medians of a few long blocks of consecutive
  steps (Schmeiser, "Batch size effects in the analysis of simulation output", 1982), and on top of
  it RUN_TO_RUN for what one run cannot tell about the next.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats

RUN_TO_RUN = 0.025
"""By how much the medians of equal runs differ, as a standard deviation relative to the step: ten
runs of a small GPT-2 on two ranks of a virtual machine with two cores spread by 2.5 %."""

CONFIDENCE = 0.95
"""Of the interval that is printed."""

DECISION = 0.99
"""Of the interval that must leave out 1 for a difference to be told. At 0.95 every twentieth pair
of equal runs would be called different, and two or more of twenty in a quarter of all attempts; so
it is one attempt of sixty."""

POWER = 0.95
"""With which probability a difference is told that is said to be seen."""

LEAST_PAIRS = 8
"""So many are run before their spread decides whether they suffice. Who stops there calls equal
revisions different more often than who does not, but in at most one case of fifty from 8 pairs on:
1.7 % where runs spread most unfavourably, of 60,000 series of normal differences."""

MOST_PAIRS = 60
"""After so many a difference that is looked for may still not be told."""

MOST_BLOCKS = 10
LEAST_BLOCK = 4
LEAST_STEPS = 2 * LEAST_BLOCK

WIDEST = 1e6
"""Where the interval of a ratio ends that so few turns leave wider: a number beyond says nothing,
and of two turns that differ much the interval ends beyond what a float can hold."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


@dataclass(frozen=True)
class Estimate:
    """A difference, its standard error and the degrees of freedom of that; inf: it is known."""

    center: float
    error: float
    freedom: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """What holds the true difference with this probability."""
        if not self.error:
            return self.center, self.center
        reach = t_quantile(0.5 + confidence / 2, self.freedom) * self.error
        return self.center - reach, self.center + reach

    def excludes_zero(self, confidence: float) -> bool:
        """Whether that leaves out 0."""
        low, high = self.interval(confidence)
        return low > 0 or high < 0

    def least_seen(self, confidence: float, power: float) -> float:
        """The true difference that such an interval would leave 0 out for with probability power.

        As the normal theory has it, with the standard error that was found.
        """
        if not self.error:
            return 0.0
        reaches = (t_quantile(p, self.freedom) for p in (0.5 + confidence / 2, power))
        return sum(reaches) * self.error


def paired(a: Floats, b: Floats) -> Estimate:
    """How much more ``b`` is than ``a``, of pairs, each of shape (pairs,); at least two."""
    differences = b - a
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return Estimate(float(differences.mean()), error, len(differences) - 1)


def independent(
    a: Floats, b: Floats, *, center: float | None = None, floor: float = 0.0
) -> Estimate:
    """How much more ``b`` is than ``a``, of shapes (m,) and (n,), by Welch and Satterthwaite.

    ``center``: that, where another estimate than the difference of the means is better. ``floor``:
    a standard deviation that each side has besides. A side of one value is taken to vary as the
    other does; raises ValueError where both are.
    """
    spread = [float(side.var(ddof=1)) for side in (a, b) if len(side) > 1]
    if not spread:
        raise ValueError("two single values have no spread")
    pooled = len(spread) == 1
    parts = [spread[0 if pooled else at] / len(side) for at, side in enumerate((a, b))]
    own, variance = sum(parts), sum(parts) + 2 * floor**2
    if pooled:
        freedom = float(max(len(a), len(b)) - 1)
        freedom = freedom * (variance / own) ** 2 if own else math.inf
    else:
        doubt = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
        freedom = variance**2 / doubt if doubt else math.inf
    if center is None:
        center = float(b.mean() - a.mean())
    return Estimate(center, math.sqrt(variance), freedom)


def as_ratio(logarithm: float) -> float:
    """The ratio with this natural logarithm, or the end of what is told: WIDEST or 1/WIDEST."""
    return math.exp(min(max(logarithm, -math.log(WIDEST)), math.log(WIDEST)))


def blocks(values: Floats) -> Sequence[Floats]:
    """Consecutive blocks of some values of shape (steps, …), as few and as long as is useful."""
    count = max(2, min(MOST_BLOCKS, len(values) // LEAST_BLOCK))
    return np.array_split(values, count)


def t_quantile(probability: float, freedom: float) -> float:
    """The value that Student's t stays below with a probability above one half.

    With t = √ν tan θ its density is proportional to cos^(ν-1) θ; that is integrated by the rule of
    Gauss and Legendre, and the integral inverted by bisection. Good to 1e-9 from 1 degree of
    freedom up; above a million degrees it is the normal distribution's.
    """
    freedom = min(freedom, 1e6)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    factor = math.exp(scale) / math.sqrt(math.pi)

    def below(angle: float) -> float:
        at = angle * (_NODES + 1) / 2
        return 0.5 + factor * angle / 2 * float(_WEIGHTS @ np.cos(at) ** (freedom - 1))

    # Beyond 12/√ν the density has vanished, and a rule stretched over more would miss it.
    low, high = 0.0, min(math.pi / 2, 12 / math.sqrt(freedom))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


@dataclass(frozen=True)
class Standing:
    """How several that took turns stand to the best of them.

    ``best``: the column whose logarithms are least on average. ``against``: how much more each of
    the columns is, the best itself included, which is 0 more than itself.

    The best is chosen after the fact, and held against several others: all intervals hold together
    with the confidence that is asked for, by Bonferroni.
    """

    best: int
    turns: int
    against: tuple[Estimate, ...]

    def of_each(self, confidence: float) -> float:
        """The confidence of each interval, for all of them to hold with this one."""
        return 1 - (1 - confidence) / max(1, len(self.against) - 1)

    def level(self) -> list[int]:
        """The others that cannot be told from the best; where there are none, it has won."""
        sure = self.of_each(DECISION)
        return [at for at in self._others if not self.against[at].excludes_zero(sure)]

    def ratio(self, at: int, confidence: float) -> tuple[float, tuple[float, float]]:
        """How many times the best's time one takes, and what holds the true ratio.

        The intervals of all of them do so together with this confidence.
        """
        low, high = self.against[at].interval(self.of_each(confidence))
        return as_ratio(self.against[at].center), (as_ratio(low), as_ratio(high))

    def sees(self, part: float) -> bool:
        """Whether others that take longer by this part of the best would nearly always be told.

        One that is as far away as twice what its own turns let see is told already.
        """
        return all(
            self._least_seen(at) <= max(math.log1p(part), self.against[at].center / 2)
            for at in self._others
        )

    def turns_to_tell(self) -> int | None:
        """How many turns in all would nearly always tell those that are level from the best.

        As far apart as they seem to be now; None where that is not at all.
        """
        most = 0
        for at in self.level():
            estimate = self.against[at]
            if not estimate.center:
                return None
            # The error shrinks with the root of the turns, and the quantiles with their number.
            needed = math.inf
            for _ in range(4):
                error = estimate.error * math.sqrt(self.turns)
                seen = Estimate(0.0, error, max(1.0, needed - 1))
                needed = (self._seen_by(seen) / estimate.center) ** 2
            most = max(most, math.ceil(needed))
        return most

    @property
    def _others(self) -> list[int]:
        return [at for at in range(len(self.against)) if at != self.best]

    def _least_seen(self, at: int) -> float:
        return self._seen_by(self.against[at])

    def _seen_by(self, estimate: Estimate) -> float:
        return estimate.least_seen(self.of_each(DECISION), POWER)


def standing(times: Floats) -> Standing:
    """Who is the fastest of several that took turns; ``times``: of shape (turns, several), above 0.

    Raises ValueError where there are fewer than two turns, which have no spread.
    """
    if len(times) < 2:
        raise ValueError("one turn has no spread")
    logs = np.log(times)
    best = int(logs.mean(axis=0).argmin())
    against = tuple(paired(logs[:, best], logs[:, at]) for at in range(logs.shape[1]))
    return Standing(best, len(times), against)


def enough(times: Floats, part: float) -> bool:
    """Whether so many turns tell a difference of a part of the best; shape (turns, several)."""
    return len(times) >= LEAST_PAIRS and standing(times).sees(part)
