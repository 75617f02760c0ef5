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
class Receive:
    """A receive that ended without its message, as its rank tells it to the others.

    ``received``: the messages that came before from ``source`` with this tag. ``sent``: those that
    the rank has sent, by receiver and tag.
    """

    source: int
    doing: str
    tag: int
    received: int
    sent: dict[str, int]

    def lacks(self, sender: "Receive", rank: int) -> bool:
        """Whether ``sender`` has not sent the message to ``rank``, so that it cannot be lost."""
        return sender.sent.get(f"{rank}, {self.tag}", 0) <= self.received


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

    def deadlock(self, rank: int, receive: Receive) -> str | None:
        """The circle of ranks that receive from each other before they send, in words, if any.

        When one of them gives up it closes its connections, so that the next gives up and tells
        here for whom it waited.
        """
        try:
            return within(2 * _PATIENCE_S, self._deadlock, rank, receive)
        except (RuntimeError, TimeoutError):
            return None

    def _deadlock(self, rank: int, receive: Receive) -> str | None:
        self._store.set(f"receive/{rank}", json.dumps(asdict(receive)))
        found = {rank: receive}
        until = time.monotonic() + _PATIENCE_S
        while receive.source not in found:
            key = f"receive/{receive.source}"
            while not self._store.check([key]):
                if time.monotonic() > until:
                    return None
                time.sleep(_POLL_S)
            rank, other = receive.source, Receive(**json.loads(self._store.get(key)))
            found[rank] = receive = other
        if not all(one.lacks(found[one.source], rank) for rank, one in found.items()):
            return None
        return deadlock(rank, [Wait(rank, (r.source,), r.doing) for rank, r in found.items()])
