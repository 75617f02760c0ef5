"""The circulant reduce_scatter."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import halvings
from steptime.collectives.schedule import Round, send


@algorithm("reduce_scatter")
def circulant(ranks: int) -> Iterator[Round]:
    """Every rank hands on the farther half of its partial sums, counted on from its own chunk.

    ⌈log₂p⌉ rounds and (p - 1)/p·S bytes, for every p the least of both at once (Träff, arXiv
    2410.14234).
    """
    rank = np.arange(ranks)
    for kept, skip in halvings(ranks):
        to = (rank + skip) % ranks
        yield send(rank, to, to, kept - skip, reduce=True)
