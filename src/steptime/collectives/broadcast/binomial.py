"""The binomial broadcast."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("broadcast", chunks=lambda: 1)
def binomial(ranks: int, root: int) -> Iterator[Round]:
    """Every rank that has the vector sends it on, over half the distance of the round before.

    ⌈log₂p⌉ rounds of S bytes: the fewest rounds there can be (MPICH, bcast_intra_binomial.c).
    """
    for distance in reversed(powers_below(ranks)):
        holder = root + np.arange(0, ranks - distance, 2 * distance)
        yield send(holder % ranks, (holder + distance) % ranks, 0)
