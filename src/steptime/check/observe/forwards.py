"""Forwards of models that ranks have replicas or shards of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.contained import Contained
from steptime.check.observe.replaced import all_of, before
from steptime.record.imports import once_imported
from steptime.world import compat


def watched_forwards(
    contained: Contained,
    begun: Callable[[torch.nn.Module, Sequence[int], Sequence[Any], Mapping[str, Any]], None],
) -> Callable[[], None]:
    """Tell ``begun`` of each forward under DDP or ``fully_shard``; the result ends that.

    It is given the model, its ranks in the world, and the arguments by position and by name. Where
    it fails, or the ranks cannot be told, ``contained`` says so, and it is told no more.
    """

    def of_replicas(model: Any, *arguments: Any, **options: Any) -> None:
        begun(model, compat.ranks_of(model.process_group), arguments, options)

    of_shards = contained.of(
        lambda module, state, *rest: begun(module, compat.ranks_of_shards(state), *rest)
    )

    return all_of(
        [
            before([DistributedDataParallel], "forward", contained.of(of_replicas)),
            once_imported(compat.SHARDED, lambda: compat.watch_sharded_forwards(of_shards)),
        ]
    )
