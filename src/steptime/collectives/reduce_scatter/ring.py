"""The ring reduce_scatter."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("reduce_scatter")
def ring(ranks: int) -> Iterator[Round]:
    """Every chunk travels once round the ring, and each rank that it passes adds its own.

    p - 1 rounds of S/p bytes, to the next rank only (Patarasu and Yuan 2009).
    """
    rank = np.arange(ranks)
    right = (rank + 1) % ranks
    for step in range(1, ranks):
        yield send(rank, right, (rank - step) % ranks, reduce=True)
