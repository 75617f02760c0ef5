"""Saves beside the training: those that are under way when their groups end, or that fail."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site

UNFINISHED, FAILED = "unfinished save", "failed save"
"""What is noted of a save that ``async_save`` has begun, and that nobody has waited for."""

_CHECKPOINT = "torch.distributed.checkpoint"


class Saves:
    """What ``torch.distributed.checkpoint.async_save`` has begun in this process."""

    def __init__(self, log: Log, contained: Contained) -> None:
        self._log = log
        self._is_done = contained.of(self._done)
        self._under_way: dict[Future[Any], int] = {}

    def begun(self, response: Any, *_: Any, **__: Any) -> None:
        """A save is begun, and goes on in another thread or process."""
        future = getattr(response, "upload_completion", response)
        if isinstance(future, Future):
            self._under_way[future] = site(self._log)
            future.add_done_callback(self._is_done)

    def _done(self, future: Future[Any]) -> None:
        at = self._under_way.pop(future, 0)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._log.note(
                observed=FAILED, at=at, error=type(error).__name__, message=str(error)[:200]
            )

    def ending(self, group: Any = None) -> None:
        """Groups are about to be destroyed: all of them where it is the default one."""
        if group is None or group is dist.group.WORLD:
            for at in [*self._under_way.values()]:  # others may end meanwhile
                self._log.note(observed=UNFINISHED, at=at, ended_at=site(self._log))


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained = Contained("saves")
    saves = Saves(log, contained)
    begun, ending = contained.of(saves.begun), contained.of(saves.ending)

    def watch() -> Callable[[], None]:
        package: Any = sys.modules[_CHECKPOINT]
        return after([package, package.state_dict_saver], "async_save", begun)

    return all_of(
        [
            once_imported(_CHECKPOINT, watch),
            before([dist, distributed_c10d], "destroy_process_group", ending),
        ]
    )


OBSERVER = Observer(_observe)
