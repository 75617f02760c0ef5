"""The ends of messages: which op of which rank sends each message, and which receives it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints
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


def message_ends(
    program: Program, matching: Matching, among: Ints | None = None
) -> NDArray[np.void]:
    """The Sends of ``program`` with their Recvs, by its ``matching``: dtype ENDS.

    ``among``: those between these ranks alone. In the order of sender, receiver, and as they match.
    """
    places = [
        np.array([at for at, op in enumerate(ops) if isinstance(op, Collective | Send | Recv)], int)
        for ops in program.lists
    ]
    nbytes = np.array([call.nbytes for call in matching.calls], np.int64)
    ranks = np.arange(program.ranks, dtype=np.int32) if among is None else np.sort(among)
    found = [np.zeros(0, ENDS)]
    for meeting in matching.meetings:
        if not meeting.ordered:
            continue
        sends, recvs = (role.parts for role in meeting.roles)
        both = meeting.groups[ranks]
        both = both[np.isin(both[:, 1], ranks)]
        for src, dst in both.tolist():
            sender, receiver = int(program.class_of[src]), int(program.class_of[dst])
            if sender not in sends:
                continue
            ends = np.zeros(sends[sender].size, ENDS)
            ends["src"], ends["dst"] = src, dst
            ends["send"] = places[sender][sends[sender]]
            ends["recv"] = places[receiver][recvs[receiver]]
            ends["bytes"] = nbytes[meeting.calls[sender]]
            found.append(ends)
    every = np.concatenate(found)
    return every[np.lexsort((every["dst"], every["src"]))]


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
