"""The recursive halving reduce_scatter."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.hypercube import folded, halve
from steptime.collectives.schedule import Round, send


@algorithm("reduce_scatter")
def recursive_halving(ranks: int) -> Iterator[Round]:
    """Partners exchange the halves of what they hold, at half the distance in every round.

    log₂p rounds and (p - 1)/p·S bytes. Other numbers than powers of two fold: ⌊log₂p⌋ + 2 rounds
    and 2S to 2.4S bytes (MPICH, reduce_scatter_intra_recursive_halving.c).
    """
    inside, outside = folded(ranks)
    # A node that stands in for another is responsible for both their chunks, which are neighbours.
    bounds = np.append(np.delete(np.arange(ranks), outside + 1), ranks)
    yield send(outside, outside + 1, 0, ranks, reduce=True)
    yield from halve(inside, bounds)
    yield send(outside + 1, outside, outside)
