"""Meeting: ranks that wait for one another at other ports, or in other files."""

from collections.abc import Iterator
from typing import NamedTuple

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.joined import open_setups
from steptime.check.judging import Judge
from steptime.check.observed import places_of
from steptime.check.words import do
from steptime.record.read import ProcessLog
from steptime.words import listed

_SETTING_UP_S = 3.0
"""Who tries several ports tries the next one by then."""


class _Waits(NamedTuple):
    """A rank that sets up the default group: where it waits, and in which line, by its number."""

    log: ProcessLog
    meets_at: str
    since_s: float
    at: int


def _meeting(job: Job) -> Iterator[Finding]:
    """Ranks that set up the default group, each where it takes the others to be."""
    waits = [one for log in job.logs for one in _waiting(job, log)]
    by_place: dict[str, list[int]] = {}
    for one in waits:
        by_place.setdefault(one.meets_at, []).append(one.log.rank)
    since_s = min((one.since_s for one in waits), default=0.0)
    if len(by_place) < 2 or since_s < _SETTING_UP_S:
        return
    told = [f"{do(ranks, 'waits')} at {place}" for place, ranks in by_place.items()]
    more = [f"others at {len(told) - 4} more"] if len(told) > 5 else told[4:]
    yield Finding(
        kind=FindingKind.MISMATCH,
        ranks=sorted(one.log.rank for one in waits),
        places=[place for one in waits for place in places_of(one.log, one.at)],
        since_s=since_s,
        what="the ranks wait for one another in other places, and never meet in "
        f"init_process_group: {listed([*told[:4], *more])}",
        mend="leave MASTER_ADDR and MASTER_PORT to the launcher; or choose the port once, before "
        "any rank is started, and give it to all of them",
    )


def _waiting(job: Job, log: ProcessLog) -> Iterator[_Waits]:
    for facts in open_setups(log):
        if not log.ended and facts.get("meets_at"):
            since_s = job.since_s(log.by_wall(facts["at_ns"]))
            yield _Waits(log, facts["meets_at"], since_s, facts["at"])


JUDGE = Judge(_meeting, while_running=True)
