"""The binomial all_reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.broadcast import binomial as broadcast
from steptime.collectives.reduce import binomial as reduce
from steptime.collectives.schedule import Round


@algorithm("all_reduce", chunks=lambda: 1)
def binomial(ranks: int) -> Iterator[Round]:
    """Reduce up a binomial tree to rank 0, then broadcast down the same tree.

    2⌈log₂p⌉ rounds of S bytes.
    """
    yield from reduce.binomial.generate(ranks, 0)
    yield from broadcast.binomial.generate(ranks, 0)
