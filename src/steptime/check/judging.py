"""All judges on one job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.words import sentence
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
        for finding in one.judge(job)
    ]
    return sorted(found, key=lambda finding: list(FindingKind).index(finding.kind))
