"""Missing: a rank that has ended, or gone on, without a call in which others wait for it."""

from collections.abc import Iterator, Sequence

from steptime.check.calls import MESSAGES, Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.parting import parting, parting_told
from steptime.check.standing import waits_for
from steptime.check.words import called, do, group_named, places_of, ranks_named, waiting_in


def missing(job: Job) -> Iterator[Finding]:
    """One finding for all ranks that ended well while others wait for a call of theirs."""
    if job.difference is not None:
        return
    gone = {rank for rank, one in job.standings.items() if one.left}
    waits = waits_for(job.calls, job.standings)
    waited = {
        rank: next(call for other, call in of.items() if other in gone)
        for rank, of in waits.items()
        if gone & set(of) and rank not in gone
    }
    if not waited:
        return
    first = min(waited.values(), key=lambda call: call.issued)
    absent = sorted({other for rank in waited for other in waits[rank] if other in gone})
    undone = [part for rank in absent if (part := job.calls.part(first, rank)) is not None]
    if undone:
        yield _undone(job, first, undone)
        return
    pair = parting(job.calls, first, absent[0])
    made = [job.calls.of_rank.get(rank, ()) for rank in absent]
    last = [of[-1] for of in made if of]
    yield Finding(
        kind=FindingKind.MISSING,
        ranks=absent,
        places=places_of([*(pair or ()), *waited.values(), *last]),
        what=(
            f"{waiting_in(waited.values())} for {ranks_named(absent)}, which ended without "
            f"{_part(first, absent)}"
            f"{_counts(job, first, absent[0])}{_last(last)}{parting_told(pair)}"
        ),
        mend=_mend(first),
        since_s=job.since_s(first.issued),
    )


def _undone(job: Job, call: Call, parts: Sequence[Call]) -> Finding:
    """Ranks left before their part of a call was done, in which another waits or has failed."""
    ranks = [part.rank for part in parts]
    return Finding(
        kind=FindingKind.MISSING,
        ranks=ranks,
        places=places_of([*parts, call]),
        what=(
            f"{do([call.rank], 'waits')} in {called(call)} for {ranks_named(ranks)}, which ended "
            f"before {called(parts[0])} was done"
        ),
        mend="Wait for every handle before the process group is destroyed, and let all ranks meet "
        "before they leave.",
        since_s=job.since_s(call.issued),
    )


def _part(call: Call, absent: Sequence[int]) -> str:
    """What ranks did not do that others wait for."""
    if call.keys:
        return "setting it"
    return "its part" if len(absent) == 1 else "their part"


def _counts(job: Job, call: Call, absent: int) -> str:
    """Which of several calls it is; nothing of the only one."""
    if call.from_any:
        return ""
    made = len(job.calls.of_key[call.key].get(absent, ()))
    if call.kind not in MESSAGES:
        where = f"calls in {group_named(call)}"
        return f": it is number {call.number}, and rank {absent} made {made} {where}"
    way = f"message {call.number} from rank {call.key[2][0]} to rank {call.key[2][1]}"
    return f": rank {call.rank} is in {way}, and rank {absent} made {made} of these"


def _last(last: Sequence[Call]) -> str:
    if not last:
        return ""
    who = ranks_named([last[0].rank])
    return f"; the last call of {who} was {called(last[0])}"


def _mend(call: Call) -> str:
    if call.keys:
        return "Let one rank set the key, whatever branch it takes, before it ends."
    if call.kind in MESSAGES:
        return "Give every send its recv, and every recv its send, before a rank ends."
    return (
        "Let all ranks make the same number of calls: give them equally many batches (drop the "
        "rest, or join the ranks with torch.distributed.algorithms.Join), decide together when "
        "to stop, and call collectives outside of branches that only some ranks take."
    )


JUDGE = Judge(missing, while_running=True)
