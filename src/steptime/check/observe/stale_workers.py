"""Stale workers: those of a DataLoader that do not learn what its dataset is told in the rank."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

STALE_WORKERS = "stale workers"
"""What is noted once of a loader: what its dataset was when its workers began, and is now."""

_WORDS = ("epoch", "seed")
_DEEPEST = 4


class StaleWorkers:
    """The loaders of this process whose workers live on, and what their datasets were told before.

    A worker has a copy of the dataset, of when it was started.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    def begins(self, loader: Any) -> None:
        """A pass through a loader begins."""
        if not (loader.num_workers and loader.persistent_workers):
            return
        now = dict(_settings(loader.dataset, _DEEPEST))
        if loader._iterator is None:
            self._of[loader] = now
            return
        then = self._of.pop(loader, {})
        changed = next((name for name in then if now.get(name) != then[name]), None)
        if changed is None:
            self._of[loader] = then
            return
        self._log.note(
            observed=STALE_WORKERS,
            dataset=type(loader.dataset).__name__,
            name=changed,
            then=str(then[changed])[:50],
            now=str(now.get(changed))[:50],
            at=site(self._log),
        )


def _settings(dataset: Any, deep: int) -> Iterator[tuple[str, Any]]:
    """What a dataset, and what it is made of, keep of an epoch or a seed."""
    for name, value in vars(dataset).items() if hasattr(dataset, "__dict__") else ():
        if type(value) in (int, str) and any(word in name for word in _WORDS):
            yield name, value
        elif deep and name == "dataset":
            yield from ((f"dataset.{of}", found) for of, found in _settings(value, deep - 1))


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    look = Contained("workers of loaders").of(StaleWorkers(log).begins)
    return before([DataLoader], "__iter__", look)


OBSERVER = Observer(_observe)
