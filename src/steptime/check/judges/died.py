"""Died: a rank's process that failed or was killed, and not because another had."""

import signal
from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.joined import joining_as_one
from steptime.check.judging import Judge
from steptime.check.standing import Standing, lost_contact, waits_for
from steptime.check.words import called, places_of, raised, waiting_in
from steptime.check.wrapped import wrapped_unlike

_GIVE_UP = (signal.SIGABRT, signal.SIGTERM)


def died(job: Job) -> Iterator[Finding]:
    """One finding for each rank that ended badly of itself; none where all ended so.

    Nor where a call or a model that ranks do not make alike explains it, or that they all join as
    the same one.

    A rank that fails in a call which another has not come to fails because of that one. Where no
    rank is left that failed of itself, one that a signal ended while it waited did not fail because
    of others, unless libraries and launchers give up by that signal.
    """
    if job.difference is not None or len(job.standings) < 2:
        return
    if wrapped_unlike(job) is not None or joining_as_one(job) is not None:
        return
    waits = waits_for(job.calls, job.standings)
    bad = [one for one in job.standings.values() if one.failed]
    free = [one for one in bad if not waits.get(one.rank)]
    own = [one for one in free if not lost_contact(one.raised)]
    killed = [one for one in bad if _killed(one)]
    causes = own or killed or (free if not job.lost else [])
    if len(causes) == len(job.standings):
        return
    for one in causes:
        yield _finding(job, one, [rank for rank, of in waits.items() if one.rank in of])


def _killed(one: Standing) -> bool:
    """Whether a signal ended it by which nobody gives up."""
    signal_number = -(one.exit_code or 0)
    return signal_number > 0 and signal_number not in _GIVE_UP


def _finding(job: Job, one: Standing, waiting: list[int]) -> Finding:
    own = job.calls.of_rank.get(one.rank, ())
    last = f", {'in' if one.within else 'after'} {called(own[-1])}" if own else ""
    others = ""
    calls = [job.standings[rank].within[-1] for rank in waiting]
    if waiting:
        others = f"; {waiting_in(calls, ' for it')}"
    return Finding(
        kind=FindingKind.DIED,
        ranks=[one.rank],
        places=places_of([*own[-1:], *calls], one.place),
        what=f"rank {one.rank} {_how(one)}{last}{others}",
        mend=_mend(one, waiting),
        since_s=job.since_s(min(call.issued for call in calls)) if calls else None,
    )


def _mend(one: Standing, waiting: Sequence[int]) -> str:
    if not waiting:
        return "Mend what ended it."
    if one.raised is not None and "wait timeout" in one.raised.message.lower():
        return (
            "It waited for a key of the store: let whoever sets that key do so before it waits "
            "for this rank."
        )
    return "Mend what ended it; what the other ranks report is its consequence."


def _how(one: Standing) -> str:
    if one.raised is not None:
        return f"raised {raised(one.raised.kind, one.place, one.raised.message)}"
    code = one.exit_code or 0
    if code > 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


JUDGE = Judge(died, while_running=True)
