"""The circulant all_reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.all_gather import circulant as all_gather
from steptime.collectives.reduce_scatter import circulant as reduce_scatter
from steptime.collectives.schedule import Round


@algorithm("all_reduce")
def circulant(ranks: int) -> Iterator[Round]:
    """Reduce_scatter, then all_gather, on a circulant graph whose skips halve p again and again.

    2⌈log₂p⌉ rounds and 2(p - 1)/p·S bytes, for every p: as few rounds as a binomial tree and as few
    bytes as the ring (Träff, arXiv 2410.14234).
    """
    yield from reduce_scatter.circulant.generate(ranks)
    yield from all_gather.circulant.generate(ranks)
