"""Forwards of models that ranks have replicas or shards of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from steptime.check.observe.replaced import Function, replaced
from steptime.record.imports import once_imported
from steptime.world import compat


def watched_forwards(
    begun: Callable[[torch.nn.Module, Sequence[int], Sequence[Any], Mapping[str, Any]], None],
) -> Callable[[], None]:
    """Tell ``begun`` of each forward under DDP or ``fully_shard``; the result ends that.

    It is given the model, its ranks in the world, and the arguments by position and by name.
    """

    def running(forward: Function) -> Function:
        def runs(wrapped: Any, *arguments: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                begun(wrapped, compat.ranks_of(wrapped.process_group), arguments, options)
            return forward(wrapped, *arguments, **options)

        return runs

    def of_shards(module: torch.nn.Module, state: Any, *rest: Any) -> None:
        begun(module, compat.ranks_of_shards(state), *rest)

    ends = [
        replaced([DistributedDataParallel], "forward", running),
        once_imported(compat.SHARDED, lambda: compat.watch_sharded_forwards(of_shards)),
    ]

    def remove() -> None:
        for end in reversed(ends):
            end()

    return remove
