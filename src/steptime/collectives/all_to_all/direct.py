"""The direct all_to_all."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("all_to_all")
def direct(ranks: int) -> Iterator[Round]:
    """Every rank sends every other its chunk, all at once.

    One round of p - 1 messages of S/p bytes (MPICH, alltoall_intra_scattered.c, unthrottled).
    """
    rank, distance = np.arange(ranks), np.arange(ranks)[:, None]
    to = (rank + distance) % ranks
    yield send(rank, to, to, into=ranks + rank)
