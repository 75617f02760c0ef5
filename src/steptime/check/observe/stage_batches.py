"""Stage batches: what the first DataLoaders of a process give, batch by batch."""

import weakref
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import OF_BATCHES, hash_of, readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after
from steptime.check.observe.tensors import is_constant
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

LOADED_BATCH = "loaded batch"
"""What is noted of a batch of several tensors: which it is of which loader, and what it holds."""

_MOST_LOADERS, _MOST_BATCHES = 4, 4


class StageBatches:
    """The DataLoaders of this process that training goes through, in the order of their first use.

    The last stage of a pipeline reads the labels of what the first has read, by its own loader.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._loaders = 0

    def loaded(self, batch: Any, iterator: Any) -> None:
        """A batch was taken from a loader's iterator."""
        known = self._of.get(iterator)
        if known is None:
            if self._loaders == _MOST_LOADERS:
                return
            self._loaders += 1
            known = self._of[iterator] = [self._loaders, 0]
        known[1] += 1
        tensors = [*tensors_in(batch)]
        told = len(tensors) > 1 and all(map(readable, tensors))
        if known[1] > _MOST_BATCHES or not told or any(map(is_constant, tensors)):
            return
        self._log.note(
            observed=LOADED_BATCH,
            number=known[:],
            shapes=[list(one.shape) for one in tensors],
            hashes=[hash_of([one], OF_BATCHES) for one in tensors],
            at=site(self._log),
        )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    look = Contained("batches of loaders").of(StageBatches(log).loaded)
    return after([dataloader._BaseDataLoaderIter], "__next__", look)


OBSERVER = Observer(_observe)
