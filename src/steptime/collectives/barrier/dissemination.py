"""The dissemination barrier."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send


@algorithm("barrier", chunks=lambda: 1)
def dissemination(ranks: int) -> Iterator[Round]:
    """Every rank tells one farther on of all that it has heard of, at doubling distance.

    ⌈log₂p⌉ rounds of empty messages (Hensgen, Finkel and Manber 1988; gloo, barrier.cc).
    """
    rank = np.arange(ranks)
    for distance in powers_below(ranks):
        yield send(rank, (rank + distance) % ranks, 0, reduce=True)
