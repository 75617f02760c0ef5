"""Straggler: a rank that others wait for, and that still works: late, not lost."""

from collections.abc import Iterator, Sequence

from steptime.check.calls import Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.locked import locked_out
from steptime.check.judging import Judge
from steptime.check.stacks import communicates, waits_for_typing
from steptime.check.standing import Standing, waits_for
from steptime.check.words import at, called, do, places_of

LATE_S = 5.0
"""Who lets others wait for so long is told, and at once where they gave up."""

_WORKS = (
    "Share that work among the ranks or do it before they meet; or give the group a longer timeout."
)
_IDLE = f"See what it waits for there: a file, a lock or a process. {_WORKS}"
_TYPED = (
    "It waits for somebody to type something, and nobody sees that of a rank: take the breakpoint, "
    "or input(), out; torch.distributed.breakpoint() holds all ranks."
)
_KEY = "See who sets that key, and let it do so before it waits for this rank."


def straggler(job: Job) -> Iterator[Finding]:
    """Each rank that runs code of its own while others have waited for it for a while.

    One that calls others meanwhile works with them: who waits may have nothing to do in that time.
    """
    if job.difference is not None:
        return
    waits = waits_for(job.calls, job.standings)
    gone = {one.host for one in job.lost}
    lost = {log.rank for log in job.logs if log.host in gone}
    locked = locked_out(job)
    for rank, one in job.standings.items():
        calls = [of[rank] for of in waits.values() if rank in of and rank not in lost]
        key = next((call for call in one.within if call.keys and call.waited), None)
        busy = one.runs and not communicates(job.stacks.get(rank, ""))
        if not calls or waits[rank] or not (busy or key) or rank in locked:
            continue
        first = min(calls, key=lambda call: call.issued)
        since_s = job.since_s(first.issued)
        own = job.calls.of_rank.get(rank, ())[-1:]
        alone_s = min([since_s, *(job.since_s(call.issued) for call in own)])
        if alone_s < _late_s(job, rank) and not any(
            job.standings[call.rank].failed for call in calls
        ):
            continue
        waiting = [call.rank for call in calls]
        idle = ", and uses no processor" if rank in job.idle else ""
        typed = bool(idle) and waits_for_typing(job.stacks.get(rank, ""))
        doing = f"waits in {called(key)}" if key else f"still runs{idle}:{_doing(one, own)}"
        yield Finding(
            kind=FindingKind.STRAGGLER,
            ranks=[rank],
            places=places_of([*own, *calls], one.place),
            what=(
                f"{do(waiting, 'waits')} for rank {rank} in {called(first)} for {since_s:.0f} s;"
                f" rank {rank} {doing}"
            ),
            mend=_KEY if key else _TYPED if typed else _IDLE if idle else _WORKS,
            since_s=since_s,
        )


def _doing(one: Standing, own: Sequence[Call]) -> str:
    """Where a rank is, else what it called last."""
    if one.place:
        return f" it is{at(one.place)}"
    return f" its last call was {called(own[-1])}" if own else ""


def _late_s(job: Job, rank: int) -> float:
    """From when on a rank is late; before its first call is done it is still being set up."""
    done = any(call.ended for call in job.calls.of_rank.get(rank, ()) if not call.makes)
    return LATE_S if done else 4 * LATE_S


JUDGE = Judge(straggler, while_running=True)
