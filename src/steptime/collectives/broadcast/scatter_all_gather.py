"""The broadcast by scatter and all_gather."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.all_gather import circulant as all_gather
from steptime.collectives.scatter import binomial as scatter
from steptime.collectives.schedule import Round


@algorithm("broadcast")
def scatter_all_gather(ranks: int, root: int) -> Iterator[Round]:
    """Scatter the vector, a chunk to each rank, then gather the chunks everywhere.

    2⌈log₂p⌉ rounds and 2(p - 1)/p·S bytes (after van de Geijn; MPICH, bcast_intra_scatter_*.c,
    but with the circulant all_gather, which serves every number of ranks alike).
    """
    yield from scatter.binomial.generate(ranks, root)
    yield from all_gather.circulant.generate(ranks)
