"""The Bruck all_gather."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("all_gather")
def bruck(ranks: int) -> Iterator[Round]:
    """Every rank sends all that it has gathered back over twice the distance of the round before.

    ⌈log₂p⌉ rounds and (p - 1)/p·S bytes. Ranges that wrap replace the final rotation (Bruck et al.
    1997; MPICH, allgather_intra_brucks.c).
    """
    rank = np.arange(ranks)
    for distance in powers_below(ranks):
        yield send(rank, (rank - distance) % ranks, rank, min(distance, ranks - distance))
