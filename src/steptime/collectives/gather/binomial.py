"""The binomial gather."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("gather")
def binomial(ranks: int, root: int) -> Iterator[Round]:
    """Every second of the ranks left hands over all that it has, at twice the distance each round.

    ⌈log₂p⌉ rounds and (p - 1)/p·S bytes (MPICH, gather_intra_binomial.c).
    """
    for distance in powers_below(ranks):
        far = np.arange(distance, ranks, 2 * distance)
        source, count = (root + far) % ranks, np.minimum(distance, ranks - far)
        yield send(source, (source - distance) % ranks, source, count)
