"""The ring all_reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.all_gather import ring as all_gather
from steptime.collectives.reduce_scatter import ring as reduce_scatter
from steptime.collectives.schedule import Round


@algorithm("all_reduce")
def ring(ranks: int) -> Iterator[Round]:
    """Reduce each chunk once round the ring, then pass the results once round it.

    2(p - 1) rounds of S/p bytes: the least a rank can send, in the most rounds (Patarasu and
    Yuan 2009).
    """
    yield from reduce_scatter.ring.generate(ranks)
    yield from all_gather.ring.generate(ranks)
