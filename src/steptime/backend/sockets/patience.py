"""Patience: whether to look for bytes again and again, or to sleep until some come."""

import os
import time
from collections.abc import Callable, Sequence

Ready = Sequence[tuple[int, int]]
"""Pipes on which something can be done: file descriptors, and the events of poll(2)."""

_LOOK_S = 150e-6
"""To be woken takes some 50 µs, and whoever is to answer may have to be woken too: were this less,
two ranks that once went to sleep would do so for ever."""

_TRUST = 8
_SELDOM = 16


class Patience:
    """Looks for a while before a thread sleeps, as long as that has been of use.

    Where links are slow, or ranks share processors, bytes come later than anybody should look for
    them: then it looks only now and then, to find out whether that has changed.
    """

    def __init__(self) -> None:
        self._trust = _TRUST
        self._skipped = 0

    def look(self, ready: Callable[[float], Ready]) -> Ready:
        """What is ``ready`` within the time that looking is worth, or nothing."""
        if not self._trust:
            self._skipped = (self._skipped + 1) % _SELDOM
            if self._skipped:
                return ()
        until = time.perf_counter() + _LOOK_S
        while not (found := ready(0)) and time.perf_counter() < until:
            os.sched_yield()
        self._trust = min(_TRUST, self._trust + 1) if found else max(0, self._trust - 1)
        return found
