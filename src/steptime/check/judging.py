"""All judges on one job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.stacks import handled_by
from steptime.check.words import raised, sentence
from steptime.discovery import members


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
        replace(finding, what=sentence(finding.what), mend=sentence(finding.mend))
        for one in asked
        for finding in _with_handled(one.judge(job), job)
    ]
    return sorted(found, key=lambda finding: list(FindingKind).index(finding.kind))


def _with_handled(findings: Iterator[Finding], job: Job) -> Iterator[Finding]:
    """With the exceptions that their ranks handle, where not all ranks do: there they parted."""
    handled = {rank: handled_by(text, rank) for rank, text in job.stacks.items()}
    if all(handled.values()):
        yield from findings
        return
    for finding in findings:
        found = [one for rank in finding.ranks if (one := handled.get(rank))]
        told = (
            f"; rank {one.place.rank} is handling {raised(one.kind, one.place, one.message)}"
            for one in found
        )
        places = [one.place for one in found if one.place not in finding.places]
        yield replace(
            finding, what="".join([finding.what, *told]), places=[*finding.places, *places]
        )
