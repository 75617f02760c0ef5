"""Left lock: the lock of a file that every rank waits for, and that none of them has.

Builds of extensions (torch.utils.cpp_extension) and downloads keep others out by such a file; where
their process was killed it stays, and whoever comes later waits for ever.
"""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.straggler import LATE_S
from steptime.check.judging import Judge
from steptime.check.stacks import waits_for_lock
from steptime.check.words import at, ranks_named
from steptime.record.read import ProcessLog


def _left_lock(job: Job) -> Iterator[Finding]:
    """One finding where all ranks that live have waited for a lock for a while."""
    alive = [rank for rank, one in job.standings.items() if not one.ended]
    stacks = [job.stacks.get(rank, "") for rank in alive]
    if not alive or not all(map(waits_for_lock, stacks)):
        return
    since_s = min(job.since_s(_last_ns(log)) for log in job.logs if log.rank in alive)
    if since_s >= LATE_S:
        places = [place for rank in alive if (place := job.standings[rank].place)]
        where = at(places[0]) if places else ""
        yield Finding(
            kind=FindingKind.STRAGGLER,
            ranks=sorted(alive),
            places=places,
            what=f"{ranks_named(alive)} all wait for the lock of a file{where}, for {since_s:.0f} "
            "s, and none of them has it: another job has, or one that was killed has left it",
            mend="if no other job builds or downloads there now, remove the file: that of an "
            "extension is called lock, in its folder under TORCH_EXTENSIONS_DIR or "
            "~/.cache/torch_extensions",
            since_s=since_s,
        )


def _last_ns(log: ProcessLog) -> int:
    """When a rank wrote something down last, by the wall clock."""
    return log.wall_ns + max(0, log.last - log.clock_ns)


JUDGE = Judge(_left_lock, while_running=True)
