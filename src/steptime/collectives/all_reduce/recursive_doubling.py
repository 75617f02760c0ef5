"""The recursive doubling all_reduce."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.hypercube import folded
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("all_reduce", chunks=lambda: 1)
def recursive_doubling(ranks: int) -> Iterator[Round]:
    """Partners exchange their sums, at twice the distance in every round.

    log₂p rounds of S bytes: the fewest rounds there can be. Other numbers than powers of two fold,
    in two rounds more (MPICH, allreduce_intra_recursive_doubling.c).
    """
    inside, outside = folded(ranks)
    node = np.arange(inside.size)
    yield send(outside, outside + 1, 0, reduce=True)
    for distance in powers_below(inside.size):
        yield send(inside, inside[node ^ distance], 0, reduce=True)
    yield send(outside + 1, outside, 0)
