"""A parameter server: rank 0 updates everything, and everything passes through it.

Strategy 1 of the MPI port of llm.c at the Barcelona Supercomputing Center (2024).
"""

from collections.abc import Iterable

from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket if rank == 0 else Span(bucket.start, bucket.start)


def reduce(comm: Communicator, gradients: Vector) -> Iterable[Work]:
    return [comm.reduce(gradients, root=0)]


def share(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return [comm.broadcast(parameters, root=0)]


STRATEGY = Strategy(
    name="server",
    summary="reduce gradients to rank 0, update there, broadcast parameters",
    owned=owned,
    reduce=reduce,
    share=share,
    known_as=("ps", "parameter_server"),
)
