"""The flat broadcast."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("broadcast", chunks=lambda: 1)
def flat(ranks: int, root: int) -> Iterator[Round]:
    """The root sends to every other rank, one after the other.

    p - 1 rounds of S bytes (Open MPI, coll_base_bcast.c, linear).
    """
    for distance in range(1, ranks):
        yield send(root, (root + distance) % ranks, 0)
