"""The flat reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("reduce", chunks=lambda: 1)
def flat(ranks: int, root: int) -> Iterator[Round]:
    """Every other rank sends to the root, one after the other.

    p - 1 rounds of S bytes (Open MPI, coll_base_reduce.c, linear).
    """
    for distance in range(1, ranks):
        yield send((root + distance) % ranks, root, 0, reduce=True)
