"""Counts: whole numbers whose sum over the ranks is rounded, as it has too few bits."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.record.read import Site

_COUNT = "count"
_EXACT = {"bfloat16": 1 << 8, "float16": 1 << 11}
"""Up to where each type has every whole number."""


def _counts(job: Job) -> Iterator[Finding]:
    """The first sum at each line that its type cannot hold."""
    calls: dict[tuple[Site | None, int, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _COUNT):
        site = one.log.sites.get(one.facts["at"])
        of = site, one.facts["number"], tuple(one.facts["ranks"])
        calls.setdefault(of, []).append(one)
    told = set[Any]()
    for (site, _, among), ranks in calls.items():
        if site in told or len(ranks) < len(among):
            continue
        exact = _EXACT[ranks[0].facts["dtype"]]
        if lost := _lost([one.facts["values"] for one in ranks], exact):
            told.add(site)
            yield Finding(
                kind=FindingKind.RACE,
                ranks=[one.rank for one in ranks],
                places=[place for one in ranks for place in one.places],
                what=f"{site} sums up whole numbers in {ranks[0].facts['dtype']}, which has every "
                f"one of them up to {exact} alone: the sum is {lost:,.0f}, which it can only round",
                mend="count in int64 or float32",
            )


def _lost(values: Sequence[Sequence[float]], exact: int) -> float:
    """The first sum that has more bits than the type; 0 where there is none."""
    for each in zip(*values, strict=False):
        total = int(sum(each))
        odd = total // (total & -total) if total else 0  # without the zeros that it ends with
        if odd > exact:
            return float(total)
    return 0.0


JUDGE = Judge(_counts)
