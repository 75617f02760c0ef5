"""The flat scatter."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("scatter")
def flat(ranks: int, root: int) -> Iterator[Round]:
    """The root sends every other rank its chunk, one after the other.

    p - 1 rounds of S/p bytes (Open MPI, coll_base_scatter.c, linear).
    """
    for distance in range(1, ranks):
        to = (root + distance) % ranks
        yield send(root, to, to)
