"""Every rank is the parameter server of one slice.

Strategy 2 of the MPI port of llm.c at the Barcelona Supercomputing Center (2024).
"""

from collections.abc import Iterable

from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket.share(rank, ranks)


def reduce(comm: Communicator, gradients: Vector) -> Iterable[Work]:
    return [comm.reduce(part, root) for root, part in enumerate(gradients.chunk(comm.ranks))]


def share(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return [comm.broadcast(part, root) for root, part in enumerate(parameters.chunk(comm.ranks))]


STRATEGY = Strategy(
    name="sliced",
    summary="reduce slice i of the gradients to rank i, which updates it and broadcasts it",
    owned=owned,
    reduce=reduce,
    share=share,
)
