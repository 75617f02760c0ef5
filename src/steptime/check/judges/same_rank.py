"""Same rank: processes that join a job under the same number, so that another never comes."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.joined import joining_as_one
from steptime.check.judging import Judge
from steptime.check.observed import places_of
from steptime.words import listed


def _same_rank(job: Job) -> Iterator[Finding]:
    """Processes that join as the same rank: they wait for ever, or fail to make the same store."""
    found = joining_as_one(job)
    if found is None:
        return
    rank, joining = found
    started = [log.rank for log, _ in joining]
    yield Finding(
        kind=FindingKind.MISMATCH,
        ranks=started,
        places=[place for log, at in joining for place in places_of(log, at)],
        what=f"the {len(joining)} processes that were started as ranks "
        f"{listed([*map(str, started)])} join in init_process_group as rank {rank}, which waits "
        f"for {len(job.logs)} ranks: one of them never comes",
        mend="take the rank from what the launcher sets, RANK, which counts over all hosts as "
        "LOCAL_RANK does not; or leave rank and world_size out",
    )


JUDGE = Judge(_same_rank, while_running=True)
