"""The all_reduce of Rabenseifner."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.hypercube import double, folded, halve
from steptime.collectives.powers import largest_power
from steptime.collectives.schedule import Round, send


@algorithm("all_reduce", chunks=largest_power)
def rabenseifner(ranks: int) -> Iterator[Round]:
    """Reduce_scatter by recursive halving, then all_gather by recursive doubling.

    2log₂p rounds and 2(p - 1)/p·S bytes. Other numbers than powers of two fold, which costs two
    rounds and 2S bytes more (Rabenseifner 2004; MPICH, allreduce_intra_reduce_scatter_allgather.c).
    """
    inside, outside = folded(ranks)
    bounds = np.arange(inside.size + 1)
    yield send(outside, outside + 1, 0, inside.size, reduce=True)
    yield from halve(inside, bounds)
    yield from double(inside, bounds)
    yield send(outside + 1, outside, 0, inside.size)
