"""The Bruck all_to_all."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.powers import powers_below
from steptime.collectives.schedule import Round, send, together


@algorithm("all_to_all", scratch=lambda ranks: ranks)
def bruck(ranks: int) -> Iterator[Round]:
    """A chunk for the rank at distance d hops over the powers of two that d is the sum of.

    ⌈log₂p⌉ rounds of about S/2 bytes (Bruck et al. 1997; MPICH, alltoall_intra_brucks.c). Instead
    of rotations, each distance has three homes on a rank: the chunk leaves its slot of the vector,
    and lands in turn in a slot of scratch and in one of the result, so that it never arrives where
    another is leaving and its last hop ends in its place.
    """
    rank, distance = np.arange(ranks), np.arange(ranks)[:, None]
    home = np.stack(np.broadcast_arrays(ranks + (rank - distance) % ranks, 2 * ranks + distance))
    at = (rank + distance) % ranks  # (distance, rank): the slot in which the chunk now is
    hops_left = np.bitwise_count(distance)
    own = send(rank, rank, rank, into=ranks + rank)
    for hop in powers_below(max(ranks, 2)):
        going = np.flatnonzero(distance & hop)
        hops_left[going] -= 1
        to = (rank + hop) % ranks
        landing = home[hops_left[going, 0] % 2, going]  # (distance, rank): the slot, by receiver
        hopping = send(rank, to, at[going], into=landing[:, to])
        at[going] = landing
        yield together(own, hopping) if hop == 1 else hopping
