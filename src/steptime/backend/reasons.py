"""Reasons: what ranks of several hosts tell each other through the store when their group fails."""

import json
import time
from dataclasses import asdict, dataclass

from steptime.backend.deadlock import Wait, deadlock
from steptime.world import compat
from steptime.world.deadline import within

_PATIENCE_S = 0.5
"""How long a rank that failed waits for the store, which may be out of its reach as well."""

_POLL_S = 0.01


@dataclass(frozen=True)
class Stuck:
    """A message that a rank waited for in vain, as it tells it to the others.

    It ``sends`` it to ``peer`` or receives it from there. ``number``: how many messages of this tag
    went that way before. ``sent`` and ``received``: the numbers of messages by ``"peer, tag"``.
    """

    peer: int
    doing: str
    sends: bool
    tag: int
    number: int
    sent: dict[str, int]
    received: dict[str, int]

    def needs(self, other: "Stuck", rank: int) -> bool:
        """Whether what the peer waited for, ``other``, held up this message of ``rank`` for good.

        The peer has not sent it; or it has not received it, nor did it read what came from
        ``rank``, as one does who receives another message from there.
        """
        message = f"{rank}, {self.tag}"
        if self.sends:
            reads = other.peer == rank and not other.sends
            return not reads and other.received.get(message, 0) <= self.number
        return other.sent.get(message, 0) <= self.number


class Reasons:
    """The reasons why a group failed, in the store by which its ranks met."""

    def __init__(self, store: compat.Store) -> None:
        self._store = store
        self._first: str | None = None

    def first(self, reason: str) -> str:
        """Give a reason; returns the first that any rank gave, or this one if none can be had."""
        if self._first is None:
            try:
                told = within(_PATIENCE_S, self._store.compare_set, "failure", "", reason)
            except (RuntimeError, TimeoutError):
                self._first = reason  # the rank that served the store is gone, or out of reach
            else:
                self._first = told.decode()
        return self._first

    def deadlock(self, rank: int, stuck: Stuck) -> str | None:
        """The circle of ranks that wait for each other's messages, in words, if any.

        When one of them gives up it closes its connections, so that the next gives up and tells
        here for whom it waited.
        """
        try:
            return within(2 * _PATIENCE_S, self._deadlock, rank, stuck)
        except (RuntimeError, TimeoutError):
            return None

    def _deadlock(self, rank: int, stuck: Stuck) -> str | None:
        self._store.set(f"stuck/{rank}", json.dumps(asdict(stuck)))
        found = {rank: stuck}
        until = time.monotonic() + _PATIENCE_S
        while stuck.peer not in found:
            key = f"stuck/{stuck.peer}"
            while not self._store.check([key]):
                if time.monotonic() > until:
                    return None
                time.sleep(_POLL_S)
            rank, stuck = stuck.peer, Stuck(**json.loads(self._store.get(key)))
            found[rank] = stuck
        if not all(one.needs(found[one.peer], rank) for rank, one in found.items()):
            return None
        return deadlock(rank, [Wait(rank, (one.peer,), one.doing) for rank, one in found.items()])
