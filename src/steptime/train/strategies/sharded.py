"""Reduce-scatter, update of the own shard, all-gather: optimizer state is divided by the ranks.

Rajbhandari et al., "ZeRO" (arXiv 1910.02054), stage 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steptime.train.layout import Span
from steptime.train.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from steptime.world.communicator import Communicator, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket.share(rank, ranks)


def reduce(comm: Communicator, gradients: Tensor) -> Iterable[Work]:
    return [comm.reduce_scatter(gradients)]


def share(comm: Communicator, parameters: Tensor) -> Iterable[Work]:
    return [comm.all_gather(parameters)]


STRATEGY = Strategy(
    name="sharded",
    summary="reduce_scatter the gradients, update one shard a rank, all_gather the parameters",
    owned=owned,
    reduce=reduce,
    share=share,
)
