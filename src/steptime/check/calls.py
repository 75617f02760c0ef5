"""The calls of a job: which call of one rank meets which of another, and which are still open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.check.finding import CallSite, on_rank
from steptime.record.events import ASYNC, Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, Signature, Site

Key: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], int]
"""What counts calls that meet: a group's own name, its ranks, and of messages ends and tag.

The n-th collective that a rank calls in a group is that of every other rank of the group, and its
n-th message to a peer there is the n-th that this one receives of it.
"""

SETTING_UP = "setting up"
"""The name of the group in which calls that set up groups are counted."""

SETUP, SET_UP = "setup", "set up"
"""What is noted when such a call begins, and when it is done."""

MESSAGES = ("send", "recv")
_KEYS = "keys"  # the name of the group in which waits for keys of a store are counted
_UNTAGGED = "nccl"  # a backend whose messages come in the order in which they are sent
_NO_SIGNATURE = Signature("", (), True)


@dataclass(frozen=True, kw_only=True)
class Polls:
    """Questions of a script whether a call is done: from when to when, by the wall clock.

    ``a_second``: how many it asks.
    """

    site: Site | None
    a_second: float
    first_ns: int
    last_ns: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """One rank's part of a call: ``number`` counts from 1 within ``key``.

    ``peer``: the root or the peer as a rank of the world, -1 where there is none. ``issued`` and
    ``ended`` are nanoseconds of the wall clock, 0 where that has not happened. ``waited``: the rank
    does nothing else before it is done. ``failed``: it was waited for, and that raised an error.
    ``makes``: the ranks of the group that it sets up. ``keys``: those of a store that it waits for,
    which any rank of ``key[1]`` may set. ``thread``: the thread of its rank for which it is made,
    by a number from 1; 0 where that is not known. ``polls``: where the script asked again and again
    whether it is done, and when first and last.
    """

    rank: int
    kind: str
    key: Key
    group: str
    number: int
    peer: int
    nbytes: int
    signature: Signature
    site: Site | None
    issued: int
    ended: int
    waited: bool
    failed: bool
    makes: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    thread: int = 0
    polls: Polls | None = None

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that it waits for: of a message its two ends."""
        return self.makes or self.key[2] or self.key[1]

    @property
    def from_any(self) -> bool:
        """Whether any rank of its group may end it: it receives from any, or waits for a key."""
        return bool(self.keys) or (self.kind == "recv" and self.peer < 0)

    @property
    def place(self) -> CallSite:
        """Where in the script it stands; line 0 of no file where that is not known."""
        return on_rank(self.rank, self.site) if self.site else NOWHERE


NOWHERE = CallSite(-1, "", 0)


@dataclass(frozen=True, eq=False)
class Calls:
    """All calls of a job: ``of_rank`` in the order of their issue.

    ``waiting``: the ranks that wait, and their logs do not tell for which of their calls.
    """

    of_rank: Mapping[int, Sequence[Call]]
    waiting: frozenset[int] = frozenset()

    @cached_property
    def of_key(self) -> Mapping[Key, Mapping[int, Sequence[Call]]]:
        """The calls that count together, of each rank that made any."""
        found: dict[Key, dict[int, list[Call]]] = {}
        for rank, calls in self.of_rank.items():
            for call in calls:
                found.setdefault(call.key, {}).setdefault(rank, []).append(call)
        return found

    def part(self, call: Call, rank: int) -> Call | None:
        """What another rank calls where this one makes ``call``; None where it has not come yet."""
        own = self.of_key[call.key].get(rank, ())
        return own[call.number - 1] if len(own) >= call.number else None

    def absent(self, call: Call) -> list[int]:
        """The ranks that must make a call and have not come to it."""
        return [rank for rank in call.members if rank >= 0 and self.part(call, rank) is None]


def calls_of(logs: Sequence[ProcessLog]) -> Calls:
    """The calls of a job, by what its processes wrote down."""
    waiting = frozenset(log.rank for log in logs if not log.ended and _waits(log))
    of_rank = {
        log.rank: sorted([*_setups(log), *_keys(log), *_calls(log)], key=lambda call: call.issued)
        for log in logs
    }
    return Calls(of_rank, waiting)


def _setups(log: ProcessLog) -> Iterator[Call]:
    """What sets up groups, as calls in a group of its own, which all ranks are in."""
    done = {one.facts["number"]: one.facts for one in log.observed if one.what == SET_UP}
    shift = log.wall_ns - log.clock_ns
    for one in log.observed:
        if one.what != SETUP:
            continue
        facts = one.facts
        end = done.get(facts["number"])
        over = log.ended or log.raised is not None
        makes = tuple(facts["ranks"])
        yield Call(
            rank=log.rank,
            kind=facts["kind"],
            key=(SETTING_UP, tuple(range(facts["world"])), (), 0),
            group=SETTING_UP,
            number=facts["number"],
            peer=-1,
            nbytes=0,
            signature=_NO_SIGNATURE,
            site=log.sites.get(facts["at"]),
            issued=facts["at_ns"] + shift,
            ended=end["at_ns"] + shift if end else 0,
            waited=end is None and not over,
            failed=end is None and over,
            makes=makes,
        )


def _keys(log: ProcessLog) -> Iterator[Call]:
    """Waits for keys of a store that are not over, or whose failure ended the rank.

    Who may set a key is known of the store alone that all ranks have; others have a world of 0.
    """
    done = {
        one.facts["number"]: one.facts["done"] for one in log.observed if one.what == "key done"
    }
    shift, asked_for = log.wall_ns - log.clock_ns, _polls(log)
    over = log.ended or log.raised is not None
    for one in log.observed:
        if one.what != "key":
            continue
        facts, place = one.facts, log.sites.get(one.facts["at"])
        number, polls = facts["number"], asked_for.get(one.facts["at_ns"])
        if number in done and (done[number] or log.raised is None or log.raised.site != place):
            continue
        if over and polls:  # it asked until then, or went on
            continue
        yield Call(
            rank=log.rank,
            kind=facts["kind"],
            key=(_KEYS, tuple(range(facts["world"])), (log.rank,), 0),
            group=_KEYS,
            number=number,
            peer=-1,
            nbytes=0,
            signature=_NO_SIGNATURE,
            site=place,
            issued=facts["at_ns"] + shift,
            ended=0,
            waited=not (over or polls),
            failed=over,
            keys=tuple(facts["keys"]),
            polls=polls,
        )


def _waits(log: ProcessLog) -> bool:
    """Whether the last that a rank wrote down is a wait without an end."""
    last = log.events[-1:]
    return bool(len(last) and last["kind"] == Kind.WAIT and not last["ended"])


def _polls(log: ProcessLog) -> dict[int, Polls]:
    """What was asked for again and again, by when it was issued."""
    found: dict[int, Polls] = {}
    shift = log.wall_ns - log.clock_ns
    for one in log.observed:
        if one.what == "poll":
            at = one.facts["at_ns"] + shift
            known = found.get(one.facts["issued_ns"])
            first = known.first_ns if known else at
            place = log.sites.get(one.facts["at"])
            found[one.facts["issued_ns"]] = Polls(
                site=place, a_second=one.facts["a_second"], first_ns=first, last_ns=at
            )
    return found


def _calls(log: ProcessLog) -> Iterator[Call]:
    counts: dict[Key, int] = {}
    polls = _polls(log)
    shift = log.wall_ns - log.clock_ns
    events = log.calls
    last = _last_of_threads(log)
    for row, thread in zip(events.tolist(), _threads(log).tolist(), strict=True):
        event = dict(zip(events.dtype.names or (), row, strict=True))
        kind, group = OPERATIONS[event["operation"]].kind, log.groups[event["group"]]
        peer = event["peer"]
        if 0 <= peer < len(group.ranks):
            peer = group.ranks[peer]
        ends: tuple[int, ...] = ()
        if kind in MESSAGES:
            ends = (log.rank, peer) if kind == "send" else (peer, log.rank)
        signature = log.signatures.get(event["signature"], _NO_SIGNATURE)
        tag = 0 if _UNTAGGED in group.backend else signature.tag
        key = (group.torch_name, group.ranks, ends, tag)
        counts[key] = counts.get(key, 0) + 1
        at_once = not event["returned"] or not (event["flags"] & ASYNC or kind in MESSAGES)
        waits = not event["ended"] and (event["wait_begin"] > 0 or at_once)
        went_on = not event["wait_begin"] and event["issued"] < last[event["thread"]]
        over = event["wait_end"] > 0 or log.ended or went_on
        yield Call(
            rank=log.rank,
            kind=kind,
            key=key,
            group=group.name,
            number=counts[key],
            peer=peer,
            nbytes=event["bytes"],
            signature=signature,
            site=log.sites.get(event["site"]),
            issued=event["issued"] + shift,
            ended=event["ended"] + shift if event["ended"] else 0,
            waited=waits and not over,
            failed=waits and over,
            thread=thread,
            polls=polls.get(event["issued"]),
        )


def _threads(log: ProcessLog) -> NDArray[np.uint16]:
    """The number of the thread for which each call is made; 0 where that is not certain.

    What a thread of autograd calls is for who waits for the backward. It is known when that is
    over, and tensors of a CPU have no such threads.
    """
    calls, backward = log.calls, log.events[log.events["kind"] == Kind.BACKWARD]
    found = calls["thread"] + np.uint16(1)
    begins, ends = backward["issued"], backward["ended"]
    at = np.searchsorted(begins, calls["issued"], side="right") - 1
    within = (at >= 0) & (calls["issued"] < np.append(ends, 0)[at])
    found[within] = np.append(backward["thread"], 0)[at[within]] + 1
    devices = [number for number, group in log.groups.items() if "ccl" in group.backend]
    found[np.isin(calls["group"], devices) & (calls["issued"] >= ends.max(initial=0))] = 0
    return found


def _last_of_threads(log: ProcessLog) -> dict[int, int]:
    """When the last event of each thread began."""
    of_thread: dict[int, int] = {}
    for thread, issued in zip(
        log.events["thread"].tolist(), log.events["issued"].tolist(), strict=True
    ):
        of_thread[thread] = max(issued, of_thread.get(thread, 0))
    return of_thread
