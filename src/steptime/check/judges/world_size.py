"""World size: ranks that wait to be joined by more ranks than the launcher has started."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.joined import open_setups
from steptime.check.judging import Judge
from steptime.check.observed import places_of
from steptime.check.words import do

_SETTING_UP_S = 60.0
"""A script that starts ranks of its own, whatever its launcher says, has them by then, also where
Python is read from a slow disk."""


def _world_size(job: Job) -> Iterator[Finding]:
    """A group of a size that is not the launcher's, whose other ranks nobody has seen."""
    seen = {log.rank for log in job.logs}
    for log in job.logs:
        for facts in open_setups(log):
            absent = sorted(
                set(range(facts.get("started") or facts["world"], facts["world"])) - seen
            )
            since = job.since_s(log.by_wall(facts["at_ns"]))
            if log.ended or not absent or since < _SETTING_UP_S:
                continue
            yield Finding(
                kind=FindingKind.MISSING,
                ranks=absent,
                places=places_of(log, facts["at"]),
                since_s=since,
                what=f"{do([log.rank], 'waits')} in init_process_group for {facts['world']} ranks, "
                f"and {facts['started']} were started, by their variable WORLD_SIZE",
                mend="leave world_size and rank out of init_process_group, which takes them from "
                "the launcher, or let that start as many ranks",
            )
            return


JUDGE = Judge(_world_size, while_running=True)
