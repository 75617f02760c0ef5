"""Messages: the transfers of one round, merged by sender and receiver."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Longs
from steptime.collectives.schedule import Round


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of one round in the order of their first transfers.

    ``src`` and ``dst``: shape (messages,). ``of``: the message of each transfer, shape
    (transfers,), -1 for one within a rank.
    """

    src: Longs
    dst: Longs
    of: Longs


def messages(transfers: Round) -> Messages:
    """Merge the transfers of a round from one rank to the same other into messages."""
    src, dst = transfers["src"].astype(np.intp), transfers["dst"].astype(np.intp)
    travels = np.flatnonzero(src != dst)
    src, dst = src[travels], dst[travels]
    _, first, message = np.unique((src << 32) | dst, return_index=True, return_inverse=True)
    in_order = np.argsort(first)
    of = np.full(transfers.size, -1)
    of[travels] = np.argsort(in_order)[message]
    first = first[in_order]
    return Messages(src[first], dst[first], of)


def firsts(keys: NDArray[Any], size: int) -> Flags:
    """The first position of each distinct key of [0, size)."""
    place = np.arange(keys.size)
    first = np.empty(size, np.intp)
    first[keys[::-1]] = place[::-1]
    return np.asarray(first[keys] == place)
