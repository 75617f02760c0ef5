"""What each rank does at one moment: it runs, waits in a call, or has ended."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steptime.check.calls import Call, Calls
from steptime.check.finding import CallSite, on_rank
from steptime.check.stacks import has_other_threads, in_torch, script_place
from steptime.record.read import ProcessLog, Raised

_POLLS_S = 8.0
"""Who has asked for so long whether a call is done does nothing else before it is."""

_ASKS_ALONE = 5_000.0
"""So many questions a second leave no time for anything else: each takes microseconds."""

_POLLED_WITHIN_S = 3.0
"""Whoever still asks has done so within this time: it is noted each second."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A rank at one moment.

    ``within``: the calls that it waits in, or in which it failed. ``place``: the line of the script
    that it is in, None where that is not known. ``exit_code``: None where it has not ended, or
    nobody knows. ``stopped``: it was ended from outside, or nobody knows how. ``raised``: the
    exception that ends it. ``may_act``: another thread of the script may, though this one waits.
    ``busy``: it uses the processor, or wants to, so that it may just have been answered.
    """

    rank: int
    ended: bool
    exit_code: int | None
    within: Sequence[Call]
    place: CallSite | None
    raised: Raised | None = None
    stopped: bool = False
    may_act: bool = False
    busy: bool = False

    @property
    def failed(self) -> bool:
        """Whether it ended badly, or is about to."""
        return bool(self.exit_code) or self.raised is not None

    @property
    def runs(self) -> bool:
        """Whether it runs code of its own."""
        return not (self.ended or self.within or self.raised)

    @property
    def left(self) -> bool:
        """Whether it came to its end as if all were well."""
        return self.ended and not (self.failed or self.within or self.stopped)


def standings_of(
    logs: Sequence[ProcessLog],
    calls: Calls,
    exit_codes: Mapping[int, int | None],
    stacks: Mapping[int, str],
    idle: frozenset[int],
    now_ns: int,
) -> dict[int, Standing]:
    """What each rank does at a moment; one of which only its exit code is known has ended."""
    found = {
        rank: Standing(
            rank=rank, ended=True, exit_code=code, within=(), place=None, stopped=code is None
        )
        for rank, code in exit_codes.items()
    }
    for log in logs:
        rank, own = log.rank, calls.of_rank[log.rank]
        within = [call for call in own if call.waited][-1:] or _failed(own)
        stack = stacks.get(rank, "")
        lives = rank not in exit_codes and not log.ended
        asked = lives and rank in stacks
        blocked = rank in calls.waiting or (rank in idle and in_torch(stack))
        if not within and (blocked or lost_contact(log.raised)):
            within = [call for call in own if not call.ended and calls.absent(call)]
        may_act = asked and (not stack or has_other_threads(stack))
        if not within and lives and not may_act:
            within = _polled(own, now_ns, idle=rank in idle)
        found[rank] = Standing(
            rank=rank,
            ended=not lives,
            exit_code=exit_codes.get(rank),
            within=within,
            place=_place(log, stack, within),
            raised=log.raised,
            stopped=exit_codes.get(rank, 0) is None and not log.ended,
            may_act=may_act,
            busy=asked and rank not in idle,
        )
    return found


def _place(log: ProcessLog, stack: str, within: Sequence[Call]) -> CallSite | None:
    """The line of the script that a rank is in, or that raised what ended it."""
    if log.raised is not None and log.raised.site is not None:
        return on_rank(log.rank, log.raised.site)
    known = [call.place for call in within if call.site]
    return script_place(stack, log.rank) or (known[-1] if known else None)


_LOST = re.compile(
    r"gloo|nccl|connection|timed? ?out|socket|peer|rendezvous|LostContactError", re.IGNORECASE
)
_REFUSED = re.compile(
    r"ProcessGroup\w*::\w+: |nccl(InvalidUsage|InvalidArgument|UnhandledCudaError)"
)
"""How a library begins what it says of a call that it does not take."""


def lost_contact(raised: Raised | None) -> bool:
    """Whether an exception only tells that another rank did not answer, as libraries word it."""
    kinds = ("RuntimeError", "DistBackendError", "DistNetworkError", "DistStoreError")
    if raised is None:
        return False
    # DDP raises a RuntimeError in place of ours, whose name it quotes.
    lost = raised.kind in kinds and _LOST.search(raised.message) is not None
    refused = _REFUSED.search(raised.message) is not None
    return (lost and not refused) or raised.kind == "LostContactError"


def _polled(calls: Sequence[Call], now_ns: int, *, idle: bool) -> list[Call]:
    """The call of a rank that its script asks for, where it does nothing else meanwhile.

    Who asks for several goes on when any of them is done, and who calls others may act.
    """
    asked = asks_for(calls, now_ns, idle=idle)
    alone = [call for call in asked if call.polls and calls[-1].issued < call.polls.first_ns]
    return alone if len(asked) == 1 else []


def asks_for(calls: Sequence[Call], now_ns: int, *, idle: bool) -> list[Call]:
    """The calls of a rank of which its script has asked for long whether they are done.

    ``idle``: it uses no processor. A rank that uses one, and asks now and then, computes meanwhile.
    """
    return [
        call
        for call in calls
        if call.polls
        and not call.ended
        and (idle or call.polls.a_second >= _ASKS_ALONE)
        and call.polls.last_ns >= now_ns - _POLLED_WITHIN_S * 1e9
        and call.polls.last_ns - call.polls.first_ns >= _POLLS_S * 1e9
    ]


def _failed(calls: Sequence[Call]) -> list[Call]:
    """The last call of a rank, where it failed in it."""
    return [call for call in calls[-1:] if call.failed]


def waits_for(calls: Calls, standings: Mapping[int, Standing]) -> dict[int, dict[int, Call]]:
    """Which ranks each rank waits for, and in which call.

    For those that have not come to it, and those that left before their own part of it was done.
    Who receives from any rank, or waits for a key that any may set, waits for all others, when none
    of them can do so any more: each has left, or waits for one that has not come.
    """

    def stands(one: Standing | None, call: Call) -> bool:
        # That a message is sent is written down; that a key is set is not.
        if one is None or one.may_act or (call.keys and one.busy and not call.polls):
            return False
        return one.left or any(own.from_any or calls.absent(own) for own in one.within)

    def missed(call: Call) -> list[int]:
        if call.from_any:
            others = [rank for rank in call.key[1] if rank != call.rank]
            if not all(stands(standings.get(rank), call) for rank in (call.rank, *others)):
                return []
            gone = [rank for rank in others if standings[rank].left]
            return gone if gone and call.keys else others
        gone = [rank for rank in call.members if rank in standings and standings[rank].left]
        parts = {rank: calls.part(call, rank) for rank in gone}
        undone = [rank for rank, part in parts.items() if part is not None and not part.ended]
        return [*calls.absent(call), *undone]

    return {
        rank: {other: call for call in one.within for other in missed(call)}
        for rank, one in standings.items()
    }
