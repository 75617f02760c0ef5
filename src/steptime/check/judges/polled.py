"""Polled: a message on gloo that a rank asks for, and that never says it is done.

The Work of a message there learns that it is done from ``wait`` alone (torch 2.13: SendWork and
RecvWork of ProcessGroupGloo leave ``isCompleted`` to the flag that ``wait`` sets).
"""

from collections.abc import Iterator

from steptime.check.calls import MESSAGES, Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.standing import asks_for
from steptime.check.words import called, places_of

_MEND = (
    "Wait for it, with wait(), in a thread of its own where the rank has other work meanwhile; "
    "is_completed() tells of collectives alone on gloo."
)

_MADE_S = 2.0
"""Who still asks so long after the other end was made would have had its answer."""


def polled(job: Job) -> Iterator[Finding]:
    """One finding for each rank that asks in vain for a message that its peer has made, too."""
    for log in job.logs:
        on_gloo = {one.torch_name for one in log.groups.values() if one.on_gloo}
        own = () if job.standings[log.rank].ended else job.calls.of_rank[log.rank]
        for call in asks_for(own, job.now_ns, idle=log.rank in job.idle):
            peer = _peer(job, call) if call.key[0] in on_gloo else None
            if peer and call.polls and job.since_s(peer.issued) >= _MADE_S:
                yield Finding(
                    kind=FindingKind.DEADLOCK,
                    ranks=[log.rank],
                    places=places_of([call, peer]),
                    what=(
                        f"rank {log.rank} asks for ever for {called(call)}: on gloo no message "
                        f"says that it is done before somebody waits for it, though rank "
                        f"{peer.rank} made its {called(peer)}"
                    ),
                    mend=_MEND,
                    since_s=job.since_s(max(call.polls.first_ns, peer.issued)),
                )
                break


def _peer(job: Job, call: Call) -> Call | None:
    """The other end of a message, where it was made."""
    if call.kind not in MESSAGES or call.peer < 0:
        return None
    return job.calls.part(call, call.peer)


JUDGE = Judge(polled, while_running=True)
