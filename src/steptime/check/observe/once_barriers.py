"""Once barriers: waits for a key of a store that was set in an earlier round, and still is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

ONCE_BARRIER = "once barrier"
"""What is noted at the end of a key that a rank has waited for in several rounds: whether it has
set it as the last that came, and whether that stayed so from one round to the next."""

_OFTEN, _MOST = 2, 1000  # waits that were none, after the first; keys


@dataclass(eq=False)
class _Waited:
    """A key that was waited for, and ``passed``: so many waits in a row were for one that was set.

    ``counted``: the process has counted itself since, and by then it ``was_set`` already.
    ``stays``: that was so in several rounds; ``at``: where it was waited for again.
    """

    counted: bool = False
    was_set: bool = False
    passed: int = 0
    stays: bool = False
    at: int = 0


class OnceBarriers:
    """The keys that this process waits for, and whether it counts itself in between.

    Who adds to a counter and waits for a key until the last has set it makes a barrier of a store:
    before this process has counted itself nobody can have set it. Who only waits asks whether
    something is ready, which it may as often as it likes.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: dict[tuple[str, ...], _Waited] = {}
        self._last: tuple[str, ...] = ()
        self._by_last: set[str] = set()
        self._value = 0

    def added(self, value: int, *_: Any) -> None:
        """A counter has come to a value."""
        self._value = value

    def setting(self, _: Any, key: str, *__: Any) -> None:
        """The process sets a key: as the last one, where it has just counted all ranks."""
        all_came = dist.is_initialized() and self._value == dist.get_world_size()
        if all_came and len(self._by_last) < _MOST:
            self._by_last.add(key)

    def adding(self, store: Any, _: str, amount: int) -> None:
        """The process is about to raise a counter, or only asks for it."""
        waited = self._of.get(self._last)
        if amount and waited is not None and not waited.counted:
            waited.counted, waited.was_set = True, store.check(list(self._last))

    def waiting(self, store: Any, keys: Any, *_: Any) -> None:
        """The process is about to wait for keys."""
        del store
        self._last = tuple(map(str, keys))
        if self._last not in self._of:
            if len(self._of) < _MOST:
                self._of[self._last] = _Waited()
            return
        known = self._of[self._last]
        known.passed = known.passed + 1 if known.counted and known.was_set else 0
        known.counted = known.was_set = False
        if known.passed == _OFTEN:
            known.stays = True
        known.at = site(self._log)

    def end(self) -> None:
        """The process ends."""
        for names, one in self._of.items():
            if one.at:
                self._log.note(
                    observed=ONCE_BARRIER,
                    key=names[-1],
                    by_last=names[-1] in self._by_last,
                    stays=one.stays,
                    at=one.at,
                )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained, barriers = Contained("barriers of a store"), OnceBarriers(log)
    return all_of(
        [
            contained.of(barriers.end),
            before([compat.Store], "set", contained.of(barriers.setting)),
            before([compat.Store], "add", contained.of(barriers.adding)),
            after([compat.Store], "add", contained.of(barriers.added)),
            before([compat.Store], "wait", contained.of(barriers.waiting)),
        ]
    )


OBSERVER = Observer(_observe)
