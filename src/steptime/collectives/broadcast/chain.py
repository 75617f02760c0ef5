"""The pipelined chain broadcast."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


@algorithm("broadcast", chunks=lambda blocks: blocks)
def chain(ranks: int, root: int, blocks: int) -> Iterator[Round]:
    """The vector goes from rank to rank in blocks: each sends one on while it gets the next.

    p + blocks - 2 rounds of S/blocks bytes (Open MPI, coll_base_bcast.c, pipeline).
    """
    for step in range(ranks + blocks - 2):
        place = np.arange(max(0, step - blocks + 1), min(step + 1, ranks - 1))
        yield send((root + place) % ranks, (root + place + 1) % ranks, step - place)
