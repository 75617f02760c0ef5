"""Shards: what of sharded tensors a rank saves by itself, and what it begins to train."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.buffers import (
    Storage,
    memory_of,
    read_and_written,
    storage_of,
    tensors_in,
)
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.replaced import all_of, before
from steptime.check.observe.tensors import is_constant, is_sharded
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site
from steptime.world import compat

SHARDS = "shards"
"""What is noted of a save by ``torch.save`` that has parts of tensors which ranks share."""

BEGUN = "shards begun"
"""What is noted of an optimizer's shards before its first step, in their order."""

_MOST, _MOST_OPTIMIZERS, _MOST_BEGUN, _MOST_SCATTERED = 50, 8, 200, 10_000
_LEAST_ELEMENTS = 64


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained, begun = Contained("begun shards"), Begun(log)
    return all_of(
        [
            _watch_saves(log),
            watched_calls(calls, ContainedWatcher(contained, begun.issued)),
            register_optimizer_step_pre_hook(contained.of(begun.stepping)).remove,
        ]
    )


class Begun:
    """The optimizers of this process that have stepped, and where gradients were scattered to.

    A parameter whose gradient comes of a reduce_scatter is a shard, though a script has made it.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._scattered: dict[int, tuple[Storage, tuple[int, ...]]] = {}

    def issued(self, operation: Operation, group: Any, arguments: Any, **_: Any) -> None:
        """A call is made."""
        first = operation.kind == "reduce_scatter" and not self._known and group.size() > 1
        if first and len(self._scattered) < _MOST_SCATTERED:
            ranks = compat.ranks_of(group)
            for one in read_and_written(operation.kind, arguments, is_root=False)[1]:
                storage = storage_of(one)
                self._scattered[storage.cdata] = storage, ranks

    def stepping(self, optimizer: Any, *_: Any) -> None:
        """An optimizer is about to step."""
        if optimizer in self._known or len(self._known) == _MOST_OPTIMIZERS:
            return
        self._known.add(optimizer)
        every: list[Any] = parameters_of(optimizer)
        sharded = [one for one in every if _is_part(one)][:_MOST_BEGUN]
        if sharded:
            local = [one.detach().to_local() for one in sharded]
            replicas = [_replicas(one) for one in sharded]
            self._note(sharded, local, [_sharers(one) for one in sharded], replicas, by_hand=False)
        by_hand = [one for one in every if self._scatterers(one)][:_MOST_BEGUN]
        if by_hand:
            ranks = [self._scatterers(one) for one in by_hand]
            self._note(by_hand, by_hand, ranks, [[] for _ in by_hand], by_hand=True)
        self._scattered.clear()

    def _note(
        self,
        sharded: Sequence[Any],
        local: Sequence[torch.Tensor],
        ranks: Sequence[Sequence[int]],
        replicas: Sequence[Sequence[int]],
        *,
        by_hand: bool,
    ) -> None:
        self._log.note(
            observed=BEGUN,
            number=len(self._known),
            ranks=ranks,
            replicas=replicas,
            shapes=[list(one.shape) for one in sharded],
            hashes=[hash_of([one]) if _tells(one) else 0 for one in local],
            by_hand=by_hand,
            at=site(self._log),
        )

    def _scatterers(self, parameter: Any) -> list[int]:
        """The ranks over which a script has scattered the gradient of a parameter; none: none."""
        if parameter.grad is None or is_sharded(parameter):
            return []
        storage, ranks = self._scattered.get(memory_of(parameter.grad), (None, ()))
        return [] if storage is None or storage.expired() else list(ranks)


def _tells(shard: torch.Tensor) -> bool:
    """Whether two shards that are like this one have been drawn alike: chance makes none so."""
    return shard.numel() >= _LEAST_ELEMENTS and readable(shard) and not is_constant(shard)


def _watch_saves(log: Log) -> Callable[[], None]:
    noted = 0

    def saved(obj: Any, *_: Any, **__: Any) -> None:
        nonlocal noted
        kept: Iterable[Any] = tensors_in(obj) if noted < _MOST else ()
        shards = [one for one in kept if _is_part(one)]
        if shards:
            noted += 1
            sharers = {rank for one in shards for rank in _sharers(one)}
            log.note(observed=SHARDS, ranks=sorted(sharers), tensors=len(shards), at=site(log))

    return before([torch], "save", Contained("shards").of(saved))


def _is_part(tensor: Any) -> bool:
    """Whether it is sharded, so that others have the rest of it."""
    placements = getattr(tensor, "placements", ())
    return any(one.is_shard() for one in placements) and len(_sharers(tensor)) > 1


def _sharers(tensor: Any) -> list[int]:
    """The ranks that have one replica of a DTensor together, this one among them."""
    return _along(tensor, [one.is_shard() for one in tensor.placements])


def _replicas(tensor: Any) -> list[int]:
    """The ranks that have the same part of a DTensor, this one among them."""
    return _along(tensor, [one.is_replicate() for one in tensor.placements])


def _along(tensor: Any, axes: Sequence[bool]) -> list[int]:
    """The ranks along some axes of a DTensor's mesh, where this one is on the others."""
    mesh = tensor.device_mesh
    here = mesh.get_coordinate() or [0] * mesh.ndim
    index = (slice(None) if along else at for along, at in zip(axes, here, strict=True))
    ranks: list[int] = mesh.mesh[tuple(index)].flatten().tolist()
    return ranks


OBSERVER = Observer(_observe)
