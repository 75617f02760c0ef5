"""The pairwise reduce_scatter."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("reduce_scatter")
def pairwise(ranks: int) -> Iterator[Round]:
    """Every rank sends every other its contribution to the other's chunk, at growing distance.

    p - 1 rounds of S/p bytes (MPICH, reduce_scatter_intra_pairwise.c).
    """
    rank = np.arange(ranks)
    for distance in range(1, ranks):
        to = (rank + distance) % ranks
        yield send(rank, to, to, reduce=True)
