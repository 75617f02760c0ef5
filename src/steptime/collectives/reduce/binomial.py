"""The binomial reduce."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("reduce", chunks=lambda: 1)
def binomial(ranks: int, root: int) -> Iterator[Round]:
    """Every second of the ranks left hands its sum over, at twice the distance in each round.

    ⌈log₂p⌉ rounds of S bytes (MPICH, reduce_intra_binomial.c).
    """
    for distance in powers_below(ranks):
        giver = root + np.arange(distance, ranks, 2 * distance)
        yield send(giver % ranks, (giver - distance) % ranks, 0, reduce=True)
