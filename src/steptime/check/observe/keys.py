"""Waits of the script for a key of a store, in which ranks leave word for one another.

Such a wait is no call of c10d: any process that has the store may set the key. PyTorch itself waits
for keys while it sets up groups, which is noted as that. Who asks for a key again and again, and
does nothing else, waits for it, too.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from types import FrameType
from typing import Any

import torch.distributed as dist

from steptime.check.observe.observer import Observer
from steptime.check.observe.polls import POLL
from steptime.check.observe.replaced import Function, all_of, calling, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import is_of_user, site
from steptime.world import compat

KEY, KEY_DONE = "key", "key done"
"""What is noted when such a wait begins, and when it is over."""

_WAITS = ("get", "multi_get", "wait")
_ASKS = ("check", "add", "compare_set")
"""What a script asks a store by without waiting, where ``add`` adds 0; and by the others."""
_EVERY_NS = 1_000_000_000
_MOST = 3  # keys of one wait that are noted


class Asked:
    """What the script's main thread asks a store for, as long as it asks for the same."""

    def __init__(self, log: Log, numbers: Iterator[int]) -> None:
        self._log, self._numbers = log, numbers
        self._of: tuple[Any, ...] = ()
        self._since = self._noted = self._times = self._number = 0

    def asked(self, store: Any, kind: str, keys: Sequence[str]) -> None:
        """It asks for keys: each second in which it asked for nothing else is noted."""
        now, at = time.perf_counter_ns(), site(self._log)
        if (kind, *keys, at) != self._of:
            self.end()
            self._of, self._since, self._noted, self._times = (kind, *keys, at), now, now, 0
        self._times += 1
        if now - self._noted < _EVERY_NS:
            return
        if not self._number:
            self._number = next(self._numbers)
            _note_key(self._log, self._number, store, kind, keys, self._since)
        self._log.note(
            observed=POLL,
            issued_ns=self._since,
            at=at,
            at_ns=now,
            a_second=self._times * 1e9 / (now - self._noted),
        )
        self._noted, self._times = now, 0

    def end(self) -> None:
        """It does something else."""
        if self._number:
            now = time.perf_counter_ns()
            self._log.note(observed=KEY_DONE, number=self._number, at_ns=now, done=True)
        self._of, self._number = (), 0


def observe(log: Log, _: Calls) -> Callable[[], None]:
    """Note each wait of the script's main thread for a key that is not set yet."""
    numbers = count(1)
    asked = Asked(log, numbers)

    def asking(function: Function) -> Function:
        def ask(self: Any, *arguments: Any, **options: Any) -> Any:
            if _of_script(calling()):
                kind, keys = function.__name__, _keys(arguments, options)
                if kind == "add" and {*arguments[1:], *options.values()}.isdisjoint({0}):
                    asked.end()
                else:
                    asked.asked(self, f"store.{kind}", keys)
            return function(self, *arguments, **options)

        return ask

    def waiting(function: Function) -> Function:
        def wait(self: Any, *arguments: Any, **options: Any) -> Any:
            keys, kind = _keys(arguments, options), f"store.{function.__name__}"
            if not _of_script(calling()):
                return function(self, *arguments, **options)
            if _are_set(self, keys):
                asked.asked(self, kind, keys)
                return function(self, *arguments, **options)
            asked.end()
            number, done = next(numbers), False
            _note_key(log, number, self, kind, keys, time.perf_counter_ns())
            try:
                result = function(self, *arguments, **options)
                done = True
                return result
            finally:
                log.note(observed=KEY_DONE, number=number, at_ns=time.perf_counter_ns(), done=done)

        return wait

    watched = [(waiting, _WAITS), (asking, _ASKS)]
    return all_of(
        [replaced([compat.Store], name, watch) for watch, names in watched for name in names]
    )


def _note_key(
    log: Log, number: int, store: Any, kind: str, keys: Sequence[str], since_ns: int
) -> None:
    log.note(
        observed=KEY,
        number=number,
        kind=kind,
        keys=keys[:_MOST],
        world=dist.get_world_size() if compat.is_default_store(store) else 0,
        at=site(log),
        at_ns=since_ns,
    )


def _keys(arguments: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """The keys that a store is asked for: what is given first, or by the name of one or several."""
    given = arguments[0] if arguments else options.get("key", options.get("keys"))
    if isinstance(given, str):
        return [given]
    return list(given) if isinstance(given, list | tuple) else []


def _of_script(frame: FrameType | None) -> bool:
    """Whether the script's own code runs in a frame, in its main thread."""
    of_user = frame is not None and is_of_user(frame.f_code)
    return of_user and threading.current_thread() is threading.main_thread()


def _are_set(store: compat.Store, keys: Sequence[str]) -> bool:
    """Whether a wait for keys ends at once, as it does, too, where the store cannot be asked."""
    try:
        return store.check(list(keys))
    except RuntimeError:
        return True


OBSERVER = Observer(observe)
