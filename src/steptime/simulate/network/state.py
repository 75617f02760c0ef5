"""The state of a network that the engine works on: arrays of records.

A *flow* is a message in its slot. A *part* is one rank's part of a collective, its *owner*. A
*node* is one hop of one flow: the flows on a link are a linked list of nodes. An *end* is one of
the two ends of a message: the ends of a rank's messages, in the order of rounds, are a chain that
its part walks along. An *event* is that flow f has waited out its latency or has arrived, number
2f, or that part p enters a round, number 2p + 1; an *instant* is a list of events.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints, Longs
from steptime.timeline import MESSAGE

Record: TypeAlias = Any  # a row of one of the arrays below

NONE = -1
SAME = 1e-12  # events that are this close, relative to the time, are at the same instant
BINS = 256  # of the series
FINEST = 2.0**-40  # seconds of a bin at first
INSTANTS = 4096  # of those last put into the agenda, to which further events may belong
NODE = 16  # bits of a node's number that tell the hop

WAITING, LATENT, FLOWING = 0, 1, 2  # states of a flow
QUIET, DONE, ROUNDS, ROOM, UNREAD, FULL = range(6)  # why the engine returns: engine.c, streams.c

FLOW = np.dtype(
    [
        ("token", np.int64),  # of a lone message, else NONE
        ("nbytes", np.float64),
        ("left", np.float64),  # bytes at the time ``since``
        ("rate", np.float64),  # bytes/s from then on
        ("since", np.float64),
        ("latency", np.float64),  # seconds
        ("sent", np.float64),  # when both ranks had entered its round
        ("reduce", np.float64),  # seconds that the receiver takes to reduce it
        ("held", np.float64),  # bytes: its sender is done when no more are left; 0: on arrival
        ("weight", np.float64),  # of its share of a link
        ("part", np.int32, 2),  # of sender and receiver
        ("device", np.int32, 2),
        ("following", np.int32, 2),  # the next end in the chain of sender and receiver
        ("round", np.int32),
        ("seen", np.int32),  # the pass in which it was last looked at
        ("hops", np.int16),
        ("missing", np.int8),  # ranks that have not entered its round
        ("released", np.int8),  # whether its sender is done though it has not arrived
        ("state", np.int8),
    ],
    align=True,
)
MOVE = np.dtype(
    [
        ("nbytes", np.float64),
        ("latency", np.float64),  # seconds: of all links of its path
        ("reduce", np.float64),  # seconds that the receiver takes to reduce it
        ("held", np.float64),  # bytes: its sender is done when no more are left; 0: on arrival
        ("weight", np.float64),  # of its share of a link
        ("rank", np.int32, 2),  # of sender and receiver in the collective; of a lone message -1
        ("device", np.int32, 2),
        ("round", np.int32),  # of the collective; of a lone message -1
    ],
    align=True,
)
"""A message that is to be sent, of a round of a collective or alone."""


class Moves(NamedTuple):
    """Some messages, ``rows`` of dtype MOVE, and their ``paths``, shape (messages, hops).

    Those of a collective are of some consecutive rounds, in their order.
    """

    rows: NDArray[Any]
    paths: Ints


LINK = np.dtype(
    [
        ("bandwidth", np.float64),  # bytes/s
        ("nbytes", np.float64),  # carried so far
        ("room", np.float64),  # bytes/s not given to a flow yet
        ("weight", np.float64),  # of all its flows
        ("unfixed", np.float64),  # weight of those without a rate yet
        ("flows", np.int32),
        ("first", np.int64),  # node
        ("seen", np.int32),
        ("row", np.int32),  # in the series
        ("changed", np.bool_),
    ],
    align=True,
)
PART = np.dtype(
    [
        ("busy", np.float64),  # seconds that it will reduce after this round
        ("at", np.int32),  # the first end of its next round, or NONE
        ("tail", np.int32),  # the last end in its chain
        ("pending", np.int32),  # its messages in this round
        ("owner", np.int32),
        ("stream", np.int32),  # that waits for it, where streams run
    ],
    align=True,
)
OWNER = np.dtype(
    [
        ("token", np.int64),
        ("base", np.int32),  # the part of rank 0
        ("unfinished", np.int32),  # ranks
        ("exhausted", np.bool_),  # all rounds are in the chains
        ("task", np.int32),  # that it carries out, where streams run
        ("untold", np.int32),  # ranks whose streams do not know yet that their part is done
        ("following", np.int32),  # the next spare owner of the task
    ],
    align=True,
)
EVENT = np.dtype([("following", np.int32), ("before", np.int32), ("instant", np.int32)])
INSTANT = np.dtype([("time", np.float64), ("first", np.int32), ("place", np.int32)], align=True)
KEPT = np.dtype(
    [
        *MESSAGE.descr,
        ("token", np.int64),  # of the collective or the lone message
        ("src_device", np.int32),
        ("dst_device", np.int32),
        ("round", np.int32),  # of the collective, else -1
    ],
    align=True,
)
"""A message that was kept; ``src`` and ``dst``: ranks of the collective, or devices."""

ENDED = np.dtype([("token", np.int64), ("rank", np.int64), ("at", np.float64)])
COUNTS = np.dtype(
    [
        ("now", np.float64),
        ("width", np.float64),  # seconds of a bin, a power of two
        ("bins", np.float64),  # a second
        ("messages", np.int64),
        ("spare_flows", np.int64),
        ("spare_instants", np.int64),
        ("heap", np.int64),
        ("changed", np.int64),
        ("ended", np.int64),
        ("logged", np.int64),
        ("rows", np.int64),  # of the series that links have
        ("without_rounds", np.int64),  # an owner of which a rank has come to the end of its chain
        ("owners", np.int64),  # used so far, and parts: where streams run
        ("parts", np.int64),
        ("wanted", np.int64),  # the task for which streams wait
        ("turn", np.int32),  # passes over the network so far
        ("keep", np.bool_),
        ("lasting", np.bool_),  # a message lasted for more than two bins of the series
    ],
    align=True,
)


class Network(NamedTuple):
    """All arrays that the engine works on; only NetworkSimulator replaces them by larger ones."""

    counts: NDArray[Any]  # (1,)
    links: NDArray[Any]  # (links,)
    flows: NDArray[Any]  # (slots,)
    spare_flows: Ints  # (slots,), a stack
    paths: Ints  # (slots, hops)
    following: Longs  # (slots, hops): the node after this one on its link
    before: Longs
    parts: NDArray[Any]
    owners: NDArray[Any]
    events: NDArray[Any]
    instants: NDArray[Any]
    spare_instants: Ints
    recent: Ints  # (INSTANTS,)
    heap: Ints  # instants
    keys: Floats  # their times
    changed: Ints  # (links,), a stack
    found: Ints  # (links,): the links of one component
    shares: Floats  # (links,): keys of a heap of them
    ended: NDArray[Any]
    logged: NDArray[Any]
    series: Floats  # (BINS, rows): bytes, but for those of messages that last longer:
    steps: Floats  # (BINS, rows): how many more of these a bin has than the one before
