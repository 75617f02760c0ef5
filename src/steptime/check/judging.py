"""All judges on one job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.stacks import handled_by
from steptime.check.words import at, sentence
from steptime.discovery import members

_LONGEST = 200  # characters of what an exception says


@dataclass(frozen=True)
class Judge:
    """What ``judges/`` registers: ``judge`` yields the findings of one sort in a job.

    ``while_running``: it is asked of a job that still runs, too; others need one that has ended.
    """

    judge: Callable[[Job], Iterator[Finding]]
    while_running: bool = False


def judged(job: Job, *, running: bool = False) -> list[Finding]:
    """What all judges find, hangs first: in the order of FindingKind."""
    judges = members("steptime.check.judges", "JUDGE", Judge)
    asked = [one for one in judges if one.while_running or not running]
    found = [
        replace(told, what=sentence(told.what), mend=sentence(told.mend))
        for one in asked
        for finding in one.judge(job)
        for told in [_with_handled(finding, job)]
    ]
    return sorted(found, key=lambda finding: list(FindingKind).index(finding.kind))


def _with_handled(finding: Finding, job: Job) -> Finding:
    """With the exceptions that its ranks handle, where not all ranks do: they went astray there."""
    handled = {rank: handled_by(text, rank) for rank, text in job.stacks.items()}
    if all(handled.values()):
        return finding
    found = [one for rank in finding.ranks if (one := handled.get(rank))]
    told = [
        f"; rank {one.place.rank} is handling {one.kind}{at(one.place)}: {one.message[:_LONGEST]}"
        for one in found
    ]
    places = [*finding.places, *(one.place for one in found if one.place not in finding.places)]
    return replace(finding, what="".join([finding.what, *told]), places=places)
