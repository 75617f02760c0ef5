"""Forked: a process that a rank forked, as a DataLoader's worker, waits in a call of its group."""

from collections.abc import Iterator

from steptime.check.calls import calls_of
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.words import called, do, places_of, ranks_named

_LEAST_S = 2.0
"""A call that a backend can make there after all is over sooner."""


def _forked(job: Job) -> Iterator[Finding]:
    """Calls that are never over: the threads that carry a group's calls do not live in a fork."""
    waiting = [
        call
        for log in job.helpers
        for call in calls_of([log]).of_rank[log.rank]
        if call.waited and job.since_s(call.issued) >= _LEAST_S
    ]
    if waiting:
        ranks = sorted({call.rank for call in waiting})
        what = list(dict.fromkeys(map(called, waiting)))
        yield Finding(
            kind=FindingKind.DEADLOCK,
            ranks=ranks,
            places=places_of(waiting),
            since_s=job.since_s(min(call.issued for call in waiting)),
            what=f"{do(ranks, 'has')} forked a process, as a DataLoader forks its workers, that "
            f"waits in {' and in '.join(what)}: the threads and connections that carry such a call "
            f"are those of {ranks_named(ranks)}, and it will never be over",
            mend="make calls in the process that joined the group alone: let workers return what "
            "they load, and reduce it in the training",
        )


JUDGE = Judge(_forked, while_running=True)
