"""The flat gather."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("gather")
def flat(ranks: int, root: int) -> Iterator[Round]:
    """Every other rank sends its chunk to the root, one after the other.

    p - 1 rounds of S/p bytes (Open MPI, coll_base_gather.c, linear).
    """
    for distance in range(1, ranks):
        source = (root + distance) % ranks
        yield send(source, root, source)
