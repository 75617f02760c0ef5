"""Once barriers: waits for a key of a store that was set in an earlier round, and still is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

ONCE_BARRIER = "once barrier"
"""What is noted once of a key for which a rank waits in round after round, and that stays set."""

_OFTEN, _MOST = 2, 1000  # waits that were none, after the first; keys


@dataclass(eq=False)
class _Waited:
    """A key that was waited for, after so many ``adds``; ``passed`` waits in a row found it set."""

    adds: int
    passed: int = 0


class OnceBarriers:
    """The keys that this process waits for, and whether it counts itself in between.

    Who adds to a counter and waits for a key until the last has set it makes a barrier of a store.
    Who only waits asks whether something is ready, which it may as often as it likes.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._adds = 0
        self._of: dict[tuple[str, ...], _Waited] = {}

    def added(self, _: Any, store: Any, key: str, amount: int) -> None:
        """A counter was raised, or only asked for."""
        del store, key
        self._adds += amount != 0

    def waiting(self, store: Any, keys: Any, *_: Any) -> None:
        """The process is about to wait for keys."""
        names = tuple(map(str, keys))
        known = self._of.get(names)
        if known is None:
            if len(self._of) < _MOST:
                self._of[names] = _Waited(self._adds)
            return
        again, known.adds = self._adds > known.adds, self._adds
        known.passed = known.passed + 1 if again and store.check(list(names)) else 0
        if known.passed == _OFTEN:
            self._log.note(observed=ONCE_BARRIER, key=names[-1], at=site(self._log))


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained, barriers = Contained("barriers of a store"), OnceBarriers(log)
    return all_of(
        [
            after([compat.Store], "add", contained.of(barriers.added)),
            before([compat.Store], "wait", contained.of(barriers.waiting)),
        ]
    )


OBSERVER = Observer(_observe)
