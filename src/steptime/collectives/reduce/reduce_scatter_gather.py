"""The reduce by reduce_scatter and gather."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.gather import binomial as gather
from steptime.collectives.reduce_scatter import circulant as reduce_scatter
from steptime.collectives.schedule import Round


@algorithm("reduce")
def reduce_scatter_gather(ranks: int, root: int) -> Iterator[Round]:
    """Reduce one chunk on each rank, then gather the chunks at the root.

    2⌈log₂p⌉ rounds and 2(p - 1)/p·S bytes (after Rabenseifner; MPICH,
    reduce_intra_reduce_scatter_gather.c, but with the circulant reduce_scatter, which serves every
    number of ranks alike).
    """
    yield from reduce_scatter.circulant.generate(ranks)
    yield from gather.binomial.generate(ranks, root)
