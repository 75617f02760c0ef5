"""Unmoved: calls that all of their ranks have made, and that get no further.

A message whose handle was let go may take what belongs to the next one: gloo (torch 2.13) drops the
buffer of it, and pairs messages of one tag in the order of their beginning. Or nothing comes
through, as where a firewall lets the ranks meet and not their data pass.
"""

from collections.abc import Iterator, Sequence

from steptime.check.calls import Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.words import places_of, waiting_in

_LEAST_S = 5.0
"""So long ago the last of the calls was made. Whether ranks send is looked at before their logs are
read, and a rank that all others waited for, as one that imports for long, may call in between."""


def _unmoved(job: Job) -> Iterator[Finding]:
    """One finding, where no rank that lives has sent anything for a while.

    Who let go the handle of a message may be done with it, so others wait in calls that it made.
    """
    alive = [rank for rank, one in job.standings.items() if not one.ended]
    if not job.unmoved.issuperset(alive):
        return
    waits = [call for rank in alive for call in job.standings[rank].within[:1]]
    stuck = [
        one
        for one in waits
        if len(one.members) > 1 and not (one.from_any or job.calls.absent(one) or _works(job, one))
    ]
    if stuck and job.since_s(max(one.issued for one in stuck)) >= _LEAST_S:
        yield _finding(job, stuck)


def _works(job: Job, call: Call) -> bool:
    """Whether more than messages may be what a call waits for.

    One of NCCL waits for what its GPU has to do before; by memory that ranks share nothing is sent.
    """
    every = [one for log in job.logs for one in log.groups.values()]
    groups = [one for one in every if one.torch_name == call.key[0]]
    if any(one.on_nccl for one in groups):
        return True
    return call.rank not in job.resting and not all(one.on_gloo for one in groups)


def _finding(job: Job, stuck: Sequence[Call]) -> Finding:
    since_s = job.since_s(max(one.issued for one in stuck))
    return Finding(
        kind=FindingKind.DEADLOCK,
        ranks=sorted({one.rank for one in stuck}),
        places=places_of(stuck),
        what=f"{waiting_in(stuck)}: every rank of these calls has made them, the last "
        f"{since_s:.0f} s ago, and nothing has been sent since",
        mend="Wait for every message that is begun before the next one, for one whose handle is "
        "let go may take what the next is meant for; else see whether a firewall holds back what "
        "the ranks send one another.",
        since_s=since_s,
    )


JUDGE = Judge(_unmoved, while_running=True)
