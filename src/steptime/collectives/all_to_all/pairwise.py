"""The pairwise all_to_all."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("all_to_all")
def pairwise(ranks: int) -> Iterator[Round]:
    """Every rank sends to the one at a distance and receives from the one as far behind it.

    p - 1 rounds of S/p bytes (MPICH, alltoall_intra_pairwise.c).
    """
    rank = np.arange(ranks)
    # The chunk at distance 0 stays on its rank: it needs no round and moves in that of distance 1.
    for distances in ([0, 1][:ranks], *([d] for d in range(2, ranks))):
        to = (rank + np.reshape(distances, (-1, 1))) % ranks
        yield send(rank, to, to, into=ranks + rank)
