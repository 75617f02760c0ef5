"""The ends of messages: which op of which rank sends each message, and which receives it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.program.matching import Matching
from steptime.program.program import Collective, Program, Recv, Send
from steptime.timeline import MESSAGE

MOST_MESSAGES = 20_000
"""A timeline of a run with more messages shows none: they would be most of its file."""

ENDS = np.dtype(
    [
        ("src", np.int32),
        ("dst", np.int32),
        ("send", np.int32),  # position in the list of the sender
        ("recv", np.int32),  # position in the list of the receiver
        ("bytes", np.int64),
    ]
)


def message_ends(program: Program, matching: Matching) -> NDArray[np.void]:
    """The Sends of ``program`` with their Recvs, by its ``matching``: dtype ENDS."""
    is_message = np.array([not call.kind for call in matching.calls], np.bool_)
    numbers = np.flatnonzero(is_message[matching.call])
    ends = np.zeros(numbers.size, ENDS)
    first = matching.first[numbers]
    ends["src"], ends["dst"] = matching.members[first], matching.members[first + 1]
    ends["bytes"] = np.array([call.nbytes for call in matching.calls], np.int64)[
        matching.call[numbers]
    ]
    number_of = np.full(matching.call.size, -1)
    number_of[numbers] = np.arange(numbers.size)
    places = [
        np.array([at for at, op in enumerate(ops) if isinstance(op, Collective | Send | Recv)], int)
        for ops in program.lists
    ]
    for rank, kind in enumerate(program.class_of.tolist()):
        own = slice(matching.parts_of[rank], matching.parts_of[rank + 1])
        which, place = number_of[matching.instance[own]], matching.place[own]
        for end, field in ((0, "send"), (1, "recv")):
            here = (which >= 0) & (place == end)
            ends[field][which[here]] = places[kind][here]
    return ends


def messages_of_step(ends: NDArray[np.void], times: Mapping[int, Floats]) -> NDArray[np.void]:
    """The messages of one step, dtype MESSAGE, between the ranks in ``times``.

    ``times``: by rank, when each op of its list began and ended, in seconds, shape (ops, 2). A
    message starts when both its ends are reached, and both end with its last byte.
    """
    known = ends[np.isin(ends["src"], list(times)) & np.isin(ends["dst"], list(times))]
    rows = np.zeros(known.size, MESSAGE)
    for field in ("src", "dst", "bytes"):
        rows[field] = known[field]
    keys = zip(*(known[field].tolist() for field in ("src", "send", "dst", "recv")), strict=True)
    for row, (src, send, dst, recv) in zip(rows, keys, strict=True):
        row["sent"] = max(times[src][send, 0], times[dst][recv, 0])
        row["received"] = max(row["sent"], times[dst][recv, 1])
    return rows
