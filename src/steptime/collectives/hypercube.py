"""Hypercube exchanges: between ranks that differ in one bit, and folding for other rank counts.

The m ranks of a hypercube are given as an array, m a power of two; node i is responsible for the
chunks [bounds[i], bounds[i + 1]).
"""

from collections.abc import Iterator

import numpy as np

from steptime.arrays import Longs
from steptime.collectives.powers import largest_power, powers_below
from steptime.collectives.schedule import Round, send


def folded(ranks: int) -> tuple[Longs, Longs]:
    """The ranks of the largest hypercube, and those left out of it.

    Of the first 2(p - m) ranks each even one is left out, and the next one stands in for it (MPICH,
    allreduce_intra_recursive_doubling.c).
    """
    outside = ranks - largest_power(ranks)
    inside = np.concatenate([np.arange(1, 2 * outside, 2), np.arange(2 * outside, ranks)])
    return inside, np.arange(0, 2 * outside, 2)


def halve(nodes: Longs, bounds: Longs) -> Iterator[Round]:
    """Recursive halving: half of what a node holds goes to its partner, which reduces it."""
    node = np.arange(nodes.size)
    for distance in reversed(powers_below(nodes.size)):
        partner = node ^ distance
        first = partner - partner % distance
        count = bounds[first + distance] - bounds[first]
        yield send(nodes, nodes[partner], bounds[first], count, reduce=True)


def double(nodes: Longs, bounds: Longs) -> Iterator[Round]:
    """Recursive doubling: all that a node has gathered goes to its partner."""
    node = np.arange(nodes.size)
    for distance in powers_below(nodes.size):
        first = node - node % distance
        count = bounds[first + distance] - bounds[first]
        yield send(nodes, nodes[node ^ distance], bounds[first], count)
