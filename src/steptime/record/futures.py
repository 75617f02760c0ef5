"""Futures of calls: who waits for one waits for the calls that it came from.

``Work.get_future`` gives a future of a call, and ``then`` and ``collect_all`` make others of it.
Their ``wait`` waits in C++ without the Work, which may have gone by then.
"""

import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from weakref import ref

from steptime.record.calls import Calls
from steptime.world import compat

_clock = time.perf_counter_ns


class _Awaited:
    """A call that a script may wait for through futures, by its event."""

    __slots__ = ("event", "waited")

    def __init__(self, event: int) -> None:
        self.event, self.waited = event, False


class Futures:
    """The calls that the futures of this process came from, while those live."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._of: dict[ref[Any], tuple[_Awaited, ...]] = {}

    def getting(self, get_future: Callable[..., Any]) -> Callable[..., Any]:
        """The method ``get_future`` of a class of Works."""

        @compat.left_alone
        @wraps(get_future)
        def noted(work: Any) -> Any:
            future = get_future(work)
            event = self._calls.works.get(ref(work))
            if event is not None:
                self._keep(future, self._of.get(ref(future)) or (_Awaited(event),))
            return future

        return noted

    def following(self, then: Callable[..., Any]) -> Callable[..., Any]:
        """The method ``then`` of futures."""

        @compat.left_alone
        @wraps(then)
        def noted(future: Any, *arguments: Any, **options: Any) -> Any:
            made = then(future, *arguments, **options)
            self._keep(made, self._of.get(ref(future), ()))
            return made

        return noted

    def collecting(self, collect_all: Callable[..., Any]) -> Callable[..., Any]:
        """The function that makes one future of several."""

        @compat.left_alone
        @wraps(collect_all)
        def noted(futures: Sequence[Any]) -> Any:
            made = collect_all(futures)
            self._keep(
                made, tuple(one for future in futures for one in self._of.get(ref(future), ()))
            )
            return made

        return noted

    def waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """The method ``wait`` of futures, which writes down from when to when it waits."""
        rows, of_thread = self._calls.log.rows, self._calls.of_thread

        @compat.left_alone
        @wraps(wait)
        def noted(future: Any) -> Any:
            left = [one for one in self._of.get(ref(future), ()) if not one.waited]
            if not left or of_thread.waiting:
                return wait(future)
            of_thread.waiting = True
            begin = _clock()
            for one in left:
                one.waited = True
                rows.waited(one.event, begin, 0)
            try:
                result = wait(future)
            finally:
                of_thread.waiting = False
                end = _clock()
                for one in left:
                    rows.waited(one.event, begin, end)
            for one in left:
                rows.end(one.event, end)  # what failed has none
            return result

        return noted

    def asking(self, done: Callable[..., Any]) -> Callable[..., Any]:
        """The method ``done`` of futures."""

        @compat.left_alone
        @wraps(done)
        def noted(future: Any) -> Any:
            answer = done(future)
            if self._calls.asked_for and not answer:
                for one in self._of.get(ref(future), ()):
                    for told in self._calls.asked_for:
                        told(one.event)
            return answer

        return noted

    def _keep(self, future: Any, awaited: tuple[_Awaited, ...]) -> None:
        if awaited:
            self._of[ref(future, self._forget)] = awaited

    def _forget(self, gone: ref[Any]) -> None:
        self._of.pop(gone, None)
