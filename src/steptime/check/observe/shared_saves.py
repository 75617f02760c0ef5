"""Shared saves: what a rank gives to the checkpoints that all ranks write and read together."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site
from steptime.world import compat

SHARED_SAVE = "shared save"
"""What is noted of a checkpoint that the ranks of a group save: its path, and by key the states of
generators, which are bytes."""

EMPTY_MOMENTS = "empty moments"
"""What is noted of a load into an optimizer's state that has no moments yet, and will have some."""

_CHECKPOINT = "torch.distributed.checkpoint"
_MOST, _LEAST_STATE = 50, 16
_DEEPEST = 8


class SharedSaves:
    """The checkpoints of torch.distributed.checkpoint of this process, in their order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._saves = self._loads = 0

    def saving(
        self,
        state_dict: Mapping[str, Any],
        *,
        checkpoint_id: Any = None,
        storage_writer: Any = None,
        process_group: Any = None,
        no_dist: bool = False,
        **_: Any,
    ) -> None:
        """A checkpoint begins to be saved."""
        group = process_group or (dist.group.WORLD if dist.is_initialized() else None)
        if group is None or no_dist or self._saves == _MOST:
            return
        self._saves += 1
        path = checkpoint_id or getattr(storage_writer, "path", None)
        states = {
            key: hash_of([one])
            for key, one in _tensors(state_dict, _DEEPEST)
            if one.dtype == torch.uint8 and one.numel() >= _LEAST_STATE and readable(one)
        }
        self._log.note(
            observed=SHARED_SAVE,
            number=self._saves,
            ranks=list(compat.ranks_of(group)),
            path=os.fspath(path) if isinstance(path, str | os.PathLike) else "",
            states=states,
            at=site(self._log),
        )

    def loading(self, state_dict: Mapping[str, Any], **_: Any) -> None:
        """A checkpoint is about to be read, into what this state has."""
        for key, one in state_dict.items():
            groups = one.get("param_groups", ()) if isinstance(one, Mapping) else ()
            empty = any(map(_has_moments, groups)) and "state" in one and not one["state"]
            if empty and self._loads < _MOST:
                self._loads += 1
                self._log.note(observed=EMPTY_MOMENTS, key=str(key), at=site(self._log))


def _has_moments(group: Any) -> bool:
    return isinstance(group, Mapping) and bool("betas" in group or group.get("momentum"))


def _tensors(value: Any, deep: int, key: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The plain tensors of a state that is nested, each by its whole key."""
    if type(value) is torch.Tensor:
        yield key, value
    elif isinstance(value, Mapping) and deep:
        for name, one in value.items():
            yield from _tensors(one, deep - 1, f"{key}.{name}" if key else str(name))


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained, saves = Contained("shared checkpoints"), SharedSaves(log)
    saving, loading = contained.of(saves.saving), contained.of(saves.loading)

    def watch() -> Callable[[], None]:
        package: Any = sys.modules[_CHECKPOINT]
        return all_of(
            [
                before([package, package.state_dict_saver], "save", saving),
                before([package, package.state_dict_loader], "load", loading),
            ]
        )

    return once_imported(_CHECKPOINT, watch)


OBSERVER = Observer(_observe)
