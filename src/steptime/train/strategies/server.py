"""A parameter server: rank 0 updates everything, and everything passes through it.

Strategy 1 of the MPI port of llm.c at the Barcelona Supercomputing Center (2024).
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
    return bucket if rank == 0 else Span(bucket.start, bucket.start)


def reduce(comm: Communicator, gradients: Tensor) -> Iterable[Work]:
    return [comm.reduce(gradients, root=0)]


def share(comm: Communicator, parameters: Tensor) -> Iterable[Work]:
    return [comm.broadcast(parameters, root=0)]


STRATEGY = Strategy(
    name="server",
    summary="reduce gradients to rank 0, update there, broadcast parameters",
    owned=owned,
    reduce=reduce,
    share=share,
)
