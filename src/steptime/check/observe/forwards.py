"""Forwards of models that ranks have replicas or shards of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.contained import Contained
from steptime.check.observe.replaced import Function, all_of, replaced
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
    of_replicas = contained.of(
        lambda module, *rest: begun(module, compat.ranks_of(module.process_group), *rest)
    )
    of_shards = contained.of(
        lambda module, state, *rest: begun(module, compat.ranks_of_shards(state), *rest)
    )

    def running(forward: Function) -> Function:
        def runs(wrapped: Any, *arguments: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                of_replicas(wrapped, arguments, options)
            return forward(wrapped, *arguments, **options)

        return runs

    return all_of(
        [
            replaced([DistributedDataParallel], "forward", running),
            once_imported(compat.SHARDED, lambda: compat.watch_sharded_forwards(of_shards)),
        ]
    )
