"""Reduce-scatter, update of the own shard, all-gather: optimizer state is divided by the ranks.

Rajbhandari et al., "ZeRO" (arXiv 1910.02054), stage 1.
"""

from collections.abc import Iterable

from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket.share(rank, ranks)


def reduce(comm: Communicator, gradients: Vector) -> Iterable[Work]:
    return [comm.reduce_scatter(gradients)]


def share(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return [comm.all_gather(parameters)]


STRATEGY = Strategy(
    name="sharded",
    summary="reduce_scatter the gradients, update one shard a rank, all_gather the parameters",
    owned=owned,
    reduce=reduce,
    share=share,
    zero=1,
    known_as=("zero1", "zero-1", "zero"),
)
