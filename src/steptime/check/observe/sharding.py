"""Sharding: whether what ``fully_shard`` cuts into shards was loaded, on this rank or by others."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.buffers import memory_of, tensors_in
from steptime.check.observe.contained import Contained, ContainedWatcher
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
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
        self._given: dict[int, StorageWeakRef] = {}
        self._loaded: dict[int, StorageWeakRef] = {}
        self._loaded_at = 0
        self._shards: list[_Shard] = []
        self._over = False

    def loading(self, module: torch.nn.Module) -> None:
        """A module has loaded a state."""
        if not self._over:
            self._loaded_at = site(self._log)
            self._loaded |= dict(_storage(one) for one in module.parameters())

    def issued(self, operation: Operation, _: Any, arguments: Any, **__: Any) -> None:
        """A call is made: what is broadcast others have loaded."""
        full = self._over or len(self._given) >= _MOST_REMEMBERED
        if operation.kind == "broadcast" and not full:
            self._given |= dict(_storage(one) for one in tensors_in(operation.vector(arguments)))

    def sharding(self, parameter: torch.Tensor, local: torch.Tensor) -> None:
        """``fully_shard`` has taken a part of a parameter."""
        if not self._over and not parameter.is_meta and not _is_in(parameter, self._given):
            loaded = _is_in(parameter, self._loaded)
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
        for known in (self._shards, self._given, self._loaded):
            known.clear()


def _storage(tensor: torch.Tensor) -> tuple[int, StorageWeakRef]:
    return memory_of(tensor), StorageWeakRef(tensor.untyped_storage())


def _is_in(tensor: torch.Tensor, known: Mapping[int, StorageWeakRef]) -> bool:
    storage = known.get(memory_of(tensor))
    return storage is not None and not storage.expired()


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("sharding")
    sharding = Sharding(log)
    loading = contained.of(sharding.loading)
    watcher = ContainedWatcher(contained, sharding.issued)
    calls.watchers.append(watcher)

    def loads(load: Function) -> Function:
        def loading_too(module: Any, *arguments: Any, **options: Any) -> Any:
            result = load(module, *arguments, **options)
            loading(module)
            return result

        return loading_too

    told = contained.of(sharding.sharding)
    ends = [
        replaced([torch.nn.Module], "load_state_dict", loads),
        once_imported(compat.SHARDING, lambda: compat.watch_sharding(told)),
        register_optimizer_step_pre_hook(contained.of(sharding.stepping)).remove,
    ]

    def remove() -> None:
        calls.watchers.remove(watcher)
        all_of(ends)()

    return remove


OBSERVER = Observer(_observe)
