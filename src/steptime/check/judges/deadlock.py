"""Deadlock: ranks that wait for one another in a circle, or one for itself."""

from collections.abc import Iterator, Mapping, Sequence

from steptime.check.calls import MESSAGES, Call
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.standing import waits_for
from steptime.check.words import called, do, group_named, places_of, ranks_named
from steptime.words import listed


def deadlock(job: Job) -> Iterator[Finding]:
    """One finding for each circle of waits; none where the ranks' calls differ, which explains it.

    A call needs all its ranks, so any circle of ranks that wait stands for ever.
    """
    if job.difference is not None:
        return
    waits = waits_for(job.calls, job.standings)
    told: set[int] = set()
    for rank in sorted(waits):
        circle = circle_from(rank, waits)
        if circle and not told & set(circle):
            told |= set(circle)
            yield _finding(job, circle, waits)


def circle_from(rank: int, waits: Mapping[int, Mapping[int, Call]]) -> list[int]:
    """The ranks of the shortest circle of waits that a rank is in; empty where it is in none."""
    before: dict[int, int] = {}
    layer = [rank]
    while layer:
        following = []
        for one in layer:
            for other in waits.get(one, ()):
                if other == rank:
                    circle = [one]
                    while circle[-1] != rank:
                        circle.append(before[circle[-1]])
                    return circle[::-1]
                if other not in before:
                    before[other] = one
                    following.append(other)
        layer = following
    return []


def _finding(job: Job, circle: Sequence[int], waits: Mapping[int, Mapping[int, Call]]) -> Finding:
    following = [*circle[1:], circle[0]]
    links = [
        (rank, other, waits[rank][other]) for rank, other in zip(circle, following, strict=True)
    ]
    links += [one for _, _, call in links if call.from_any for one in _besides(call, circle, waits)]
    calls = [call for *_, call in links]
    chain = "; ".join(
        f"rank {rank} waits for rank {other} in {called(call)}" for rank, other, call in links
    )
    # Where all went astray it is no rank that sends to the wrong one: they receive from it.
    found = [(send, call) for call in calls if (send := _astray(job, call))]
    astray = found[0] if len(found) == 1 else ()
    what, mend = _to_another(*astray) if astray else _named(job, calls)
    return Finding(
        kind=FindingKind.DEADLOCK,
        ranks=sorted({rank for rank, *_ in links}),
        places=places_of([*astray, *calls]),
        what=f"{what}: {chain}",
        mend=mend,
        since_s=job.since_s(max(call.issued for call in calls)),
    )


def _astray(job: Job, call: Call) -> Call | None:
    """Where ``call`` waits for a message that was not sent, the one that may be meant for it.

    Its sender has sent it to a rank that receives none of that sender.
    """
    if call.kind != "recv" or call.from_any or job.calls.part(call, call.peer) is not None:
        return None
    for one in job.calls.of_rank.get(call.peer, ()):
        elsewhere = one.kind == "send" and one.peer != call.rank
        if elsewhere and one.number == 1 and job.calls.part(one, one.peer) is None:
            return one
    return None


def _to_another(send: Call, call: Call) -> tuple[str, str]:
    """What is wrong where ``send`` went astray and ``call`` waits, and its mend."""
    what = f"{called(send)} goes to a rank that receives nothing of rank {send.rank}"
    return (
        f"{what}, for whose message rank {call.rank} waits in a circle",
        "Send to the rank that receives.",
    )


def _besides(
    call: Call, circle: Sequence[int], waits: Mapping[int, Mapping[int, Call]]
) -> Iterator[tuple[int, int, Call]]:
    """What the other ranks wait for, and whom, that could send to who receives from any."""
    for rank in waits[call.rank]:
        if rank not in circle and waits.get(rank):
            other, their = next(iter(waits[rank].items()))
            yield rank, other, their


def _named(job: Job, calls: Sequence[Call]) -> tuple[str, str]:
    """What sort of circle it is, and its mend."""
    ranks = ranks_named([call.rank for call in calls])
    kinds = {call.kind for call in calls}
    if len(calls) == 1:
        return f"{ranks} waits for itself", "Send to another rank, or copy the tensor instead."
    if keys := [call for call in calls if call.keys]:
        who = do([call.rank for call in keys], "waits")
        others = "" if len(keys) == len(calls) else f", and {ranks} wait for one another"
        if all(call.polls for call in keys):
            return (
                f"{do([call.rank for call in keys], 'asks')} again and again for a key of the "
                f"store that no rank changes any more{others}",
                "Let it ask for what comes to be: count how many ranks add to the key, and set "
                "what another waits for before waiting.",
            )
        return (
            f"{who} for a key of the store that no rank has set{others}",
            "Let the rank that is to set the key do so before it waits for the others.",
        )
    if kinds == {"send"}:
        return (
            f"{ranks} all send first, and none receives",
            "Let one of two ranks receive before it sends, or use dist.batch_isend_irecv.",
        )
    if kinds == {"recv"}:
        sent = any(one.kind == "send" for call in calls for one in job.calls.of_rank[call.rank])
        what = "each wait for what the next sends only later"
        return (
            f"{ranks} {what if sent else 'all receive first, and none sends'}",
            "Let one of two ranks send before it receives, or use dist.batch_isend_irecv.",
        )
    if kinds == {"init_process_group"}:
        sizes = [f"rank {call.rank} for one of {len(call.makes)}" for call in calls]
        return (
            f"the ranks wait for groups of other sizes: {listed(sizes)}",
            "Give all ranks the same world_size, or leave it and rank to what the launcher sets.",
        )
    if "new_group" in kinds:
        return (
            f"{ranks} do not all make a group that they are in",
            "Call new_group on every rank, for all groups and in one order, those that a rank is "
            "not in, too.",
        )
    if not kinds & set(MESSAGES) and len({call.key for call in calls}) > 1:
        groups = listed([*dict.fromkeys(map(group_named, calls))])
        return (
            f"{ranks} use {groups} in different orders",
            "Call the collectives of several groups in the same order on every rank.",
        )
    return (
        f"{ranks} wait for one another in a circle",
        "Let every rank make these calls in one order, so that each finds its peer.",
    )


JUDGE = Judge(deadlock, while_running=True)
