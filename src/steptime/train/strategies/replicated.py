"""All-reduce, then every rank updates everything: data parallelism as first taught."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steptime.train.layout import Span
from steptime.train.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from steptime.world.communicator import Communicator, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket


def reduce(comm: Communicator, gradients: Tensor) -> Iterable[Work]:
    return [comm.all_reduce(gradients)]


def share(comm: Communicator, parameters: Tensor) -> Iterable[Work]:
    return []


STRATEGY = Strategy(
    name="replicated",
    summary="all_reduce the gradients, every rank updates everything",
    owned=owned,
    reduce=reduce,
    share=share,
)
