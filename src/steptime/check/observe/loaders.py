"""Loaders: passes through a DataLoader that has workers, and how long these take to start."""

import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

LOADER = "loader"
"""What is noted of a pass: it began at a line, and its workers had been started by ``end_ns``."""

_MOST = 200


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def began(loader: Any, begin_ns: int) -> None:
        nonlocal noted
        if loader.num_workers and noted < _MOST:
            noted += 1
            log.note(
                observed=LOADER,
                workers=loader.num_workers,
                persistent=loader.persistent_workers,
                streams=isinstance(loader.dataset, IterableDataset),
                begin_ns=begin_ns,
                end_ns=time.perf_counter_ns(),
                at=site(log),
            )

    note = Contained("loaders").of(began)

    def iterating(iterate: Function) -> Function:
        def iterates(loader: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            found = iterate(loader)
            note(loader, begin_ns)
            return found

        return iterates

    return replaced([DataLoader], "__iter__", iterating)


OBSERVER = Observer(_observe)
