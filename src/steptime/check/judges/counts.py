"""Counts: numbers whose sum over the ranks is not right, for its type has too few bits."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.record.read import Site

_COUNT = "count"
_HALF, _MOST_HALF = "float16", 65_504
_EXACT = {"bfloat16": 1 << 8, _HALF: 1 << 11}
"""Up to where each type of floats has every whole number."""
_RANGES = {
    "uint8": range(1 << 8),
    **{f"int{bits}": range(-(1 << bits - 1), 1 << bits - 1) for bits in (8, 16, 32)},
}
"""Which numbers each type of integers has."""


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
        dtype = ranks[0].facts["dtype"]
        values = [one.facts["values"] for one in ranks]
        if over := _beyond(values, dtype):
            told.add(site)
            yield _of_halves(ranks, site, over)
        elif all(one.facts.get("whole", True) for one in ranks) and (why := _why(values, dtype)):
            told.add(site)
            yield finding_of(
                ranks,
                FindingKind.RACE,
                what=f"{site} sums up whole numbers in {dtype}, {why}",
                mend="count in int64" if dtype in _RANGES else "count in int64 or float32",
            )


def _beyond(values: Sequence[Sequence[float]], dtype: str) -> float:
    """The first sum that float16 has no number for; 0 where there is none, or of other types.

    What is infinite before, as scaled gradients may be, is noted as the largest number.
    """
    finite = (each for each in zip(*values, strict=False) if max(map(abs, each)) < _MOST_HALF)
    beyond = (total for each in finite if abs(total := sum(each)) > _MOST_HALF)
    return next(beyond, 0.0) if dtype == _HALF else 0.0


def _of_halves(ranks: Sequence[Noted], site: Site | None, total: float) -> Finding:
    return finding_of(
        ranks,
        FindingKind.RACE,
        what=f"{site} sums up in float16, which ends at {_MOST_HALF:,}: a sum is {total:,.0f}, and "
        "becomes infinite",
        mend="divide by the number of ranks before the sum, or sum up in bfloat16 or float32",
    )


def _why(values: Sequence[Sequence[float]], dtype: str) -> str:
    """Why the type cannot hold the sums of these, of each rank as many; empty where it can."""
    totals = [int(sum(each)) for each in zip(*values, strict=False)]
    if dtype in _RANGES:
        has = _RANGES[dtype]
        beyond = next((total for total in totals if total not in has), None)
        ends = f"which goes from {has.start:,} to {has.stop - 1:,}"
        return "" if beyond is None else f"{ends}: a sum is {beyond:,}, and wraps around"
    exact = _EXACT[dtype]
    # Without the zeros that it ends with, a number has as many bits as it needs.
    rounded = next((n for n in totals if n and n // (n & -n) > exact), None)
    alone = f"which has every one of them up to {exact} alone"
    return "" if rounded is None else f"{alone}: the sum is {rounded:,}, which it can only round"


JUDGE = Judge(_counts)
