"""Sharding: whether what ``fully_shard`` cuts into shards was loaded, on this rank or by others."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.buffers import Remembered, storage_of, tensors_in
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.operations import Operation
from steptime.record.places import site
from steptime.world import compat

SHARDED = "sharded"
"""What is noted before the first step: how many parameters that ``fully_shard`` was given were
loaded on this rank before, how many nobody has written to, and where the last were loaded."""


_MOST_REMEMBERED = 100_000
"""Of what is broadcast: a script that never steps may do it for ever."""


@dataclass(frozen=True, eq=False)
class _Shard:
    """A shard as it was made; ``loaded``: of a parameter that was; ``version``: of its memory."""

    local: weakref.ref[torch.Tensor]
    loaded: bool
    version: int


class Sharding:
    """The parameters that this process loads and shards, until its first step."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._given = Remembered(_MOST_REMEMBERED)
        self._loaded = Remembered(_MOST_REMEMBERED)
        self._loaded_at = 0
        self._shards: list[_Shard] = []
        self._over = False

    def loaded(self, _: Any, module: torch.nn.Module, *__: Any, **___: Any) -> None:
        """A module has loaded a state."""
        if not self._over:
            self._loaded_at = site(self._log)
            self._loaded.add(map(storage_of, module.parameters()))

    def issued(self, operation: Operation, _: Any, arguments: Any, **__: Any) -> None:
        """A call is made: what is broadcast others have loaded."""
        if operation.kind == "broadcast" and not self._over:
            self._given.add(map(storage_of, tensors_in(operation.vector(arguments))))

    def sharding(self, parameter: torch.Tensor, local: torch.Tensor) -> None:
        """``fully_shard`` has taken a part of a parameter."""
        if not self._over and not parameter.is_meta and parameter not in self._given:
            loaded = parameter in self._loaded
            self._shards.append(_Shard(weakref.ref(local), loaded, local._version))

    def stepping(self, *_: Any) -> None:
        """An optimizer is about to step: what was not written to since is what was sharded."""
        if self._shards:
            kept = [
                one
                for one in self._shards
                if (local := one.local()) is not None and local._version == one.version
            ]
            self._log.note(
                observed=SHARDED,
                loaded=sum(one.loaded for one in kept),
                own=sum(not one.loaded for one in kept),
                loaded_at=self._loaded_at,
                at=site(self._log),
            )
        self._over = True
        self._shards.clear()
        self._given.clear()
        self._loaded.clear()


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("sharding")
    sharding = Sharding(log)
    told = contained.of(sharding.sharding)
    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, sharding.issued)),
            after([torch.nn.Module], "load_state_dict", contained.of(sharding.loaded)),
            once_imported(compat.SHARDING, lambda: compat.watch_sharding(told)),
            register_optimizer_step_pre_hook(contained.of(sharding.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
