"""Shards: what of sharded tensors a rank saves by itself."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

SHARDS = "shards"
"""What is noted of a save by ``torch.save`` that has parts of tensors which ranks share."""

_MOST = 50


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def saved(given: Any) -> None:
        nonlocal noted
        kept: Iterable[Any] = tensors_in(given) if noted < _MOST else ()
        shards = [one for one in kept if _is_part(one)]
        if shards:
            noted += 1
            sharers = {rank for one in shards for rank in _sharers(one)}
            log.note(observed=SHARDS, ranks=sorted(sharers), tensors=len(shards), at=site(log))

    note = Contained("shards").of(saved)

    def saving(save: Function) -> Function:
        def saves(given: Any, *arguments: Any, **options: Any) -> Any:
            note(given)
            return save(given, *arguments, **options)

        return saves

    return replaced([torch], "save", saving)


def _is_part(tensor: Any) -> bool:
    """Whether it is sharded, so that others have the rest of it."""
    placements = getattr(tensor, "placements", ())
    return any(one.is_shard() for one in placements) and len(_sharers(tensor)) > 1


def _sharers(tensor: Any) -> list[int]:
    """The ranks that have one replica of a DTensor together, this one among them."""
    mesh = tensor.device_mesh
    here = mesh.get_coordinate() or [0] * mesh.ndim
    along = (
        slice(None) if placement.is_shard() else at
        for placement, at in zip(tensor.placements, here, strict=True)
    )
    ranks: list[int] = mesh.mesh[tuple(along)].flatten().tolist()
    return ranks


OBSERVER = Observer(_observe)
