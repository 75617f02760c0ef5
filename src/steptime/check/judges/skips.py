"""Skips: a step that the GradScaler of one part of a model leaves out, and no other's."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.drift import uneven
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import do

_SKIPS = "skips"


def _skips(job: Job) -> Iterator[Finding]:
    """The first scaler of ranks that call one another before each step, and do not all step then.

    Replicas, whose gradients are the same, and shards that reduce theirs are told as ``uneven``.
    """
    if any(uneven(job)):
        return
    by_number: dict[int, list[Noted]] = {}
    for one in noted(job, _SKIPS):
        by_number.setdefault(one.facts["number"], []).append(one)
    for ranks in by_number.values():
        calls = {one.facts["calls"] for one in ranks}
        skipped = [set(one.facts["skipped"]) for one in ranks]
        joined = all(len(one.log.calls) >= one.facts["calls"] for one in ranks)
        parted = set[int]().union(*skipped) - set[int].intersection(*skipped)
        if len(ranks) > 1 and len(calls) == 1 and joined and parted:
            yield _finding(ranks, min(parted))
            return


def _finding(ranks: Sequence[Noted], step: int) -> Finding:
    without = [one.rank for one in ranks if step in one.facts["skipped"]]
    others = [one.rank for one in ranks if step not in one.facts["skipped"]]
    return finding_of(
        ranks,
        FindingKind.DRIFT,
        what=f"{do(without, 'skips')} step {step}, as its GradScaler found gradients that are no "
        f"numbers, and {do(others, 'steps')}: the parts of the model are not of one step any more, "
        "and are scaled by other factors from then on",
        mend="tell all ranks of it before they step: all_reduce by MAX what unscale_ has found",
    )


JUDGE = Judge(_skips)
