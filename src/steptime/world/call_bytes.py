"""How many bytes a collective makes each rank send and receive.

Rooted collectives are counted as their definition moves data, every rank with the root, which is
the congestion that a parameter server meets; the others as their bandwidth-optimal algorithms do
(Thakur, Rabenseifner, Gropp 2005, sections 4.3 to 4.5). What a library really sends may be more:
``wire`` measures that.
"""

from typing import Literal, NamedTuple, TypeAlias

Collective: TypeAlias = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "barrier"
]


class Traffic(NamedTuple):
    """Bytes that one rank sends and receives."""

    sent: int
    received: int

    def plus(self, other: "Traffic") -> "Traffic":
        """Both together."""
        return Traffic(self.sent + other.sent, self.received + other.received)

    def minus(self, other: "Traffic") -> "Traffic":
        """What has been added since ``other``."""
        return Traffic(self.sent - other.sent, self.received - other.received)


def traffic_of(kind: Collective, payload: int, rank: int, ranks: int, root: int = 0) -> Traffic:
    """Traffic of ``rank`` in one collective over ``ranks`` ranks.

    ``payload`` is the size in bytes of the whole vector: the input of all_reduce, reduce_scatter,
    reduce and broadcast, the output of all_gather.
    """
    others = ranks - 1
    match kind:
        case "all_reduce":
            both = 2 * others * payload // ranks
            return Traffic(both, both)
        case "reduce_scatter" | "all_gather":
            both = others * payload // ranks
            return Traffic(both, both)
        case "reduce":
            return Traffic(0, others * payload) if rank == root else Traffic(payload, 0)
        case "broadcast":
            return Traffic(others * payload, 0) if rank == root else Traffic(0, payload)
        case "barrier":
            return Traffic(0, 0)
