"""The circulant all_gather."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import halvings
from steptime.collectives.schedule import Round, send


@algorithm("all_gather")
def circulant(ranks: int) -> Iterator[Round]:
    """The circulant reduce_scatter backwards: every rank sends back as many chunks as it lacks.

    ⌈log₂p⌉ rounds and (p - 1)/p·S bytes, for every p the least of both at once (Träff, arXiv
    2410.14234).
    """
    rank = np.arange(ranks)
    for known, skip in reversed(list(halvings(ranks))):
        yield send(rank, (rank - skip) % ranks, rank, known - skip)
