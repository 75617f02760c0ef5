"""Bytes of a call of a collective: by member, by pair of members, and the factor of busbw.

Rooted collectives are counted as their definition moves data, every rank with the root, which is
the congestion that a parameter server meets; all_reduce, reduce_scatter and all_gather as rings,
which are bandwidth-optimal (Thakur, Rabenseifner, Gropp 2005, sections 4.3 to 4.5); all_to_all as a
message for each pair. What a library really sends may be more: ``world.wire`` measures that.

``nbytes`` is always the whole vector: the input of all_reduce, reduce_scatter, reduce, broadcast
and scatter, the output of all_gather and gather.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError

RING_PASSES: Mapping[str, int] = MappingProxyType(
    {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
)
"""Passes round the ring in which each link carries all shares of the vector but one."""

_BY_SHARES = ("all_to_all", "scatter", "gather")


class Traffic(NamedTuple):
    """Bytes that one rank sends and receives."""

    sent: int
    received: int

    def plus(self, other: "Traffic") -> "Traffic":
        """The sum of both."""
        return Traffic(self.sent + other.sent, self.received + other.received)

    def minus(self, other: "Traffic") -> "Traffic":
        """The bytes since ``other`` was counted."""
        return Traffic(self.sent - other.sent, self.received - other.received)


def member_bytes(kind: str, nbytes: int, member: int, members: int, root: int = 0) -> Traffic:
    """What one member of the group sends and receives in one call, in whole bytes.

    Raises UsageError for an unknown collective.
    """
    numerator, denominator = _of_vector(kind, members)
    each = nbytes * numerator // denominator
    others = members - 1
    root_sends, other_receives = (others * each, 0), (0, each)
    if kind in ("broadcast", "scatter"):
        return Traffic(*(root_sends if member == root else other_receives))
    if kind in ("reduce", "gather"):
        return Traffic(*reversed(root_sends if member == root else other_receives))
    both = others * each if kind == "all_to_all" else each
    return Traffic(both, both)


def pair_bytes(kind: str, nbytes: int, members: int, root: int = 0) -> Floats:
    """The bytes from each member to each other in one call, shape (members, members).

    Raises UsageError for an unknown collective.
    """
    numerator, denominator = _of_vector(kind, members)
    each = nbytes * numerator / denominator
    sent = np.zeros((members, members))
    here = np.arange(members)
    if kind in RING_PASSES:
        sent[here, (here + 1) % members] = each
    elif kind in ("broadcast", "scatter"):
        sent[root] = each
    elif kind in ("reduce", "gather"):
        sent[:, root] = each
    else:
        sent[:] = each
    np.fill_diagonal(sent, 0)
    return sent


def bus_factor(kind: str, ranks: int) -> float:
    """The ratio busbw / algbw: bytes on each rank's link, at best, for a byte of the vector.

    As in nccl-tests (doc/PERFORMANCE.md, v2.19.6); 1 for broadcast, reduce and messages.
    """
    if kind in RING_PASSES or kind in _BY_SHARES:
        return RING_PASSES.get(kind, 1) * (ranks - 1) / ranks
    return 1.0


def _of_vector(kind: str, members: int) -> tuple[int, int]:
    """The fraction of the vector that each message carries; of a ring, all from one member."""
    if kind in RING_PASSES:
        return RING_PASSES[kind] * (members - 1), members
    if kind in _BY_SHARES:
        return 1, members
    if kind in ("broadcast", "reduce"):
        return 1, 1
    if kind == "barrier":
        return 0, 1
    raise UsageError(f"{kind!r} is no collective whose bytes are known")
