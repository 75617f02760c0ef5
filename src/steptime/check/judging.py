"""All judges on one job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from steptime.check.finding import Finding, FindingKind, on_rank
from steptime.check.job import Job
from steptime.check.stacks import handled_by
from steptime.check.standing import lost_contact
from steptime.check.words import raised, sentence
from steptime.discovery import members
from steptime.record.read import Raised

_WAITS = (FindingKind.DEADLOCK, FindingKind.MISSING, FindingKind.STRAGGLER)
"""Of these kinds others wait for what a thread may have owed; a mismatch explains itself."""


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
        for finding in _with_threads(_with_handled(one.judge(job), job), job)
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


def _with_threads(findings: Iterator[Finding], job: Job) -> Iterator[Finding]:
    """With what ended threads of their ranks: others may wait for calls that such a one owes."""
    ended = {log.rank: log.thread_raised for log in job.logs}
    for finding in findings:
        told = finding
        for rank in finding.ranks if finding.kind in _WAITS else ():
            if (one := ended.get(rank)) and not lost_contact(one):
                told = _with_thread(told, rank, one)
        yield told


def _with_thread(finding: Finding, rank: int, ended: Raised) -> Finding:
    place = on_rank(rank, ended.site) if ended.site else None
    also = [place] if place and place not in finding.places else []
    return replace(
        finding,
        what=f"{finding.what}; a thread of rank {rank} raised "
        f"{raised(ended.kind, place, ended.message)}",
        places=[*finding.places, *also],
        mend="Mend first what ended the thread: who waits for it waits for ever. "
        + sentence(finding.mend),
    )
