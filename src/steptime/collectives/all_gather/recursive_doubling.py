"""The recursive doubling all_gather."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.hypercube import double
from steptime.collectives.powers import is_power
from steptime.collectives.schedule import Round


@algorithm("all_gather", serves=is_power)
def recursive_doubling(ranks: int) -> Iterator[Round]:
    """Partners exchange all that they have, at twice the distance in every round.

    log₂p rounds and (p - 1)/p·S bytes, for powers of two (MPICH,
    allgather_intra_recursive_doubling.c).
    """
    yield from double(np.arange(ranks), np.arange(ranks + 1))
