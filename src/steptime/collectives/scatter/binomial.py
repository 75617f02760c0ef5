"""The binomial scatter."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("scatter")
def binomial(ranks: int, root: int) -> Iterator[Round]:
    """Every rank that has chunks of others hands over the farther half of them.

    ⌈log₂p⌉ rounds and (p - 1)/p·S bytes (MPICH, scatter_intra_binomial.c).
    """
    for distance in reversed(powers_below(ranks)):
        far = np.arange(distance, ranks, 2 * distance)
        to, count = (root + far) % ranks, np.minimum(distance, ranks - far)
        yield send((to - distance) % ranks, to, to, count)
