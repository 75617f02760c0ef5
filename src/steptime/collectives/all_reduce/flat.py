"""The flat all_reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.broadcast import flat as broadcast
from steptime.collectives.reduce import flat as reduce
from steptime.collectives.schedule import Round


@algorithm("all_reduce", chunks=lambda: 1)
def flat(ranks: int) -> Iterator[Round]:
    """All ranks send to rank 0, which sends the sum to all, one after the other.

    2(p - 1) rounds of S bytes, and what a parameter server does.
    """
    yield from reduce.flat.generate(ranks, 0)
    yield from broadcast.flat.generate(ranks, 0)
