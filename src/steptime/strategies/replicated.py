"""All-reduce, then every rank updates everything: data parallelism as first taught."""

from collections.abc import Iterable

from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work


def owned(bucket: Span, rank: int, ranks: int) -> Span:
    return bucket


def reduce(comm: Communicator, gradients: Vector) -> Iterable[Work]:
    return [comm.all_reduce(gradients)]


def share(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return []


STRATEGY = Strategy(
    name="replicated",
    summary="all_reduce the gradients, every rank updates everything",
    owned=owned,
    reduce=reduce,
    share=share,
    zero=0,
    known_as=("dp", "data_parallel", "allreduce", "all_reduce"),
)
