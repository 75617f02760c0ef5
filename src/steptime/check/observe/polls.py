"""Polls: the script asks a Work again and again whether it is done, in place of waiting for it.

Nobody but the script knows what it does when the answer stays no. But a rank that has asked for
long, and asked just now, stands as still as one that waits.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import is_of_script, site
from steptime.world import compat

POLL = "poll"
"""What is noted of a call that is asked for, each second while it is."""

_QUESTION = "is_completed"
_EVERY_NS = 1_000_000_000
_MOST = 1000  # calls that are asked for at once


class _Polls:
    """The calls of this process that the script has asked for, and that were not done."""

    def __init__(self, log: Log, calls: Calls) -> None:
        self._log, self._calls = log, calls
        self._noted: dict[int, tuple[int, int]] = {}
        """When each was noted last, and how often it was asked for since."""

        self._methods: dict[type, Callable[[Any], bool]] = {}

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """A call begins; nobody can ask for it yet."""

    def returned(self, work: Any) -> None:
        """See the script ask for Works of this class, too."""
        if work is not None:
            self.see(type(work))

    def waiting(self, work: Any) -> None:
        """The script waits, which is written down as that."""

    def see(self, kind: type) -> None:
        """See the script ask Works of a class whether they are done."""
        method = kind.__dict__.get(_QUESTION)
        if method is None or kind in self._methods:
            return
        self._methods[kind] = method

        def is_completed(work: Any) -> bool:
            done = bool(method(work))
            if not done and is_of_script(sys._getframe(1)):
                self._asked(work)
            return done

        setattr(kind, _QUESTION, is_completed)

    def _asked(self, work: Any) -> None:
        event = self._calls.works.get(ref(work))
        if event is None:
            return
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

    def end(self) -> None:
        """Give the classes their methods back."""
        for kind, method in self._methods.items():
            setattr(kind, _QUESTION, method)


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    polls = _Polls(log, calls)
    polls.see(compat.Work)
    calls.watchers.append(polls)

    def remove() -> None:
        calls.watchers.remove(polls)
        polls.end()

    return remove


OBSERVER = Observer(_observe)
