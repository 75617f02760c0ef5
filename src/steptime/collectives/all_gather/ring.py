"""The ring all_gather."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("all_gather")
def ring(ranks: int) -> Iterator[Round]:
    """Every rank passes on to the next what it got last.

    p - 1 rounds of S/p bytes (MPICH, allgather_intra_ring.c).
    """
    rank = np.arange(ranks)
    right = (rank + 1) % ranks
    for step in range(ranks - 1):
        yield send(rank, right, (rank - step) % ranks)
