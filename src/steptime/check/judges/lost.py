"""Lost: a host that answers no more, while ranks elsewhere are in calls with its ranks."""

from collections.abc import Iterator, Sequence

from steptime.check.calls import Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.pulse import LostHost
from steptime.check.words import places_of, ranks_named, waiting_in
from steptime.words import listed

_WAITS_S = 1.0
_MOST_NAMES = 3


def lost(job: Job) -> Iterator[Finding]:
    """One finding for each host of which the others hear nothing, and for which calls wait."""
    for one in job.lost:
        ranks = [log.rank for log in job.logs if log.host == one.host]
        calls = [call for log in job.logs if (call := _waits_for(job, log.rank, ranks))]
        if ranks and calls:
            yield _finding(one, ranks, calls)


def _waits_for(job: Job, rank: int, gone: Sequence[int]) -> Call | None:
    """The first call of a rank that is not done, with one of the ranks that are gone."""
    if rank in gone:
        return None
    for call in job.calls.of_rank.get(rank, ()):
        if not call.ended and job.since_s(call.issued) >= _WAITS_S and {*call.members} & {*gone}:
            return call
    return None


def _finding(one: LostHost, ranks: Sequence[int], calls: Sequence[Call]) -> Finding:
    own = "" if one.linked else ", and its own interface has no link"
    # A name of letters alone would get a capital at the begin of a sentence.
    host = f"the host {one.host}" if one.host.isalpha() else one.host
    return Finding(
        kind=FindingKind.LOST,
        ranks=ranks,
        places=places_of(calls),
        what=(
            f"{host} with {ranks_named(ranks)} answers no more: {_hosts(one.others)} heard "
            f"nothing of it for {one.silent_s:.1f} s{own}; "
            f"{waiting_in(calls, ' for it')}"
        ),
        mend=f"See whether {one.host} runs, and whether the others reach it; torchrun with "
        "--max-restarts starts the ranks again once it does.",
        since_s=one.silent_s,
    )


def _hosts(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{names[0]} and {len(names) - 1} others"
    return listed(names)


JUDGE = Judge(lost, while_running=True)
