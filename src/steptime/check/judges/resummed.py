"""Resummed: gradients that are summed up in each micro-batch of a step, sums and all."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted

_RESUMMED = "resummed"
_TOLERANCE = 1e-3


def _resummed(job: Job) -> Iterator[Finding]:
    """The first gradient that is the ranks' sum as another backward adds to it.

    Where it is their average by then, the sum of all divided by their number is right again.
    """
    found: dict[tuple[int, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _RESUMMED):
        found.setdefault((one.facts["number"], tuple(one.facts["ranks"])), []).append(one)
    for (_, among), ranks in found.items():
        total = sum(float(one.facts["brought"]) for one in ranks)
        apart = [abs(float(one.facts["carried"]) - total) for one in ranks]
        if len(ranks) == len(among) and total and max(apart) <= _TOLERANCE * abs(total):
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                what="the gradients are summed up after each of several backwards of a step, which "
                "add to them: what the ranks have summed up already is summed up again, and counts "
                f"{len(among)} times as much",
                mend="reduce the gradients once, after the last backward of a step; or divide each "
                f"sum by {len(among)} at once",
            )
            return


JUDGE = Judge(_resummed)
