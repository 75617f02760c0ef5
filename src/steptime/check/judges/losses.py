"""Losses: those that the script averages over the ranks before DDP averages their gradients."""

from collections.abc import Iterator, Sequence
from math import frexp

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of

_LOSS = "loss"
_ROUNDING, _APART = 1e-4, 1e-3  # of the largest
_LEAST_SCALE = 1 << 8
"""The least by which a GradScaler multiplies a loss; it is a power of two."""


def losses_of(job: Job, number: int = 1) -> dict[int, float]:
    """What the backward of this number began at, by rank."""
    of_number = [one for one in noted(job, _LOSS) if one.facts["number"] == number]
    return {one.rank: float(one.facts["value"]) for one in of_number}


def differ(values: Sequence[float], by: float = _APART) -> bool:
    """Whether values differ by more than rounding does, as a part of the largest."""
    return max(values) - min(values) > by * max(map(abs, values))


def _losses(job: Job) -> Iterator[Finding]:
    """A loss that was summed up and divided by the number of ranks, and DDP divides once more."""
    by_number: dict[int, list[Noted]] = {}
    for one in noted(job, _LOSS):
        by_number.setdefault(one.facts["number"], []).append(one)
    for ranks in by_number.values():
        among = ranks[0].facts["averaged"]
        if len(among) < 2 or sorted(one.rank for one in ranks) != sorted(among):
            continue
        own = [one.facts["own"] for one in ranks]
        if None not in own and differ(own) and _is_mean(ranks, sum(own) / len(own)):
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(one.rank for one in ranks),
                places=[
                    place
                    for one in ranks
                    for place in (*places_of(one.log, one.facts["summed_at"]), *one.places)
                ],
                what=f"{_where(ranks[0])} averages the loss over the ranks before its backward: "
                "all_reduce sends no gradient back, so the division makes each rank's gradient "
                f"smaller, and the ranks' gradients are averaged after that: what is trained by "
                f"is 1/{len(ranks)} of their mean",
                mend="call backward of the rank's own loss, and all_reduce a detached copy of it "
                "for the log",
            )
            return


def _is_mean(ranks: Sequence[Noted], mean: float) -> bool:
    """Whether all began at the mean, or at that times what a GradScaler multiplies by."""
    begun = [float(one.facts["value"]) for one in ranks]
    factor = begun[0] / mean if mean else 0.0
    whole = round(factor)
    scales = whole == 1 or (whole >= _LEAST_SCALE and frexp(whole)[0] == 0.5)
    return scales and all(abs(one - whole * mean) <= _ROUNDING * abs(one) for one in begun)


def _where(one: Noted) -> str:
    return str(one.log.sites.get(one.facts["summed_at"], "the script"))


JUDGE = Judge(_losses)
