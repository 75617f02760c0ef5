"""Polls: the script asks a Work again and again whether it is done, in place of waiting for it.

Nobody but the script knows what it does when the answer stays no. But a rank that has asked for
long, and asked just now, stands as still as one that waits.
"""

import time
from typing import Any
from weakref import ref

from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

POLL = "poll"
"""What is noted of a call that is asked for, each second while it is."""

_EVERY_NS = 1_000_000_000
_MOST = 1000  # calls that are asked for at once


class Polls:
    """The calls of this process that the script has asked for, and that were not done."""

    def __init__(self, log: Log, calls: Calls) -> None:
        self._log, self._calls = log, calls
        self._noted: dict[int, tuple[int, int]] = {}
        """When each was noted last, and how often it was asked for since."""
        calls.asked_for.append(self.asked_for)

    def asked(self, work: Any) -> None:
        """The script has asked for a Work that is not done."""
        event = self._calls.works.get(ref(work))
        if event is not None:
            self.asked_for(event)

    def asked_for(self, event: int) -> None:
        """The script has asked for the call of an event, which is not done."""
        now = time.perf_counter_ns()
        if event not in self._noted and len(self._noted) >= _MOST:
            self._noted.clear()
        since, times = self._noted.get(event, (now, 0))
        self._noted[event] = since, times + 1
        if now - since >= _EVERY_NS:
            self._noted[event] = now, 0
            self._log.note(
                observed=POLL,
                issued_ns=self._calls.log.rows.issued(event),
                at=site(self._log),
                at_ns=now,
                a_second=times * 1e9 / (now - since),
            )
