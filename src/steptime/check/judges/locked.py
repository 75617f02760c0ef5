"""Locked: a rank that keeps the lock of a file while it waits for those that wait for the lock."""

from collections.abc import Iterator
from pathlib import Path

from steptime.check.calls import Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.locks import LockWait
from steptime.check.standing import waits_for
from steptime.check.words import at, called, do, places_of, ranks_named


def locked_out(job: Job) -> dict[int, tuple[LockWait, Call]]:
    """The ranks that wait for a lock, and the call in which its holder waits for them."""
    waits = waits_for(job.calls, job.standings)
    return {
        one.rank: (one, waits[one.holder][one.rank])
        for one in job.lock_waits
        if one.rank in waits.get(one.holder, {})
    }


def locked(job: Job) -> Iterator[Finding]:
    """One finding for each rank that keeps a lock from those it waits for."""
    found = locked_out(job)
    for holder in dict.fromkeys(one.holder for one, _ in found.values()):
        ranks = [rank for rank, (one, _) in found.items() if one.holder == holder]
        one, call = found[ranks[0]]
        place = job.standings[one.rank].place
        name = Path(one.path).name or "a file"
        yield Finding(
            kind=FindingKind.DEADLOCK,
            ranks=sorted([holder, *ranks]),
            places=places_of([call], *(job.standings[rank].place for rank in ranks)),
            what=f"rank {holder} holds the lock of {name} and waits for {ranks_named(ranks)} in "
            f"{called(call)}; {do(ranks, 'waits')} for that lock{at(place)}",
            mend="let go of the lock before the ranks meet: make no collective, nor a barrier, "
            "while it is held",
            since_s=job.since_s(call.issued),
        )


JUDGE = Judge(locked, while_running=True)
