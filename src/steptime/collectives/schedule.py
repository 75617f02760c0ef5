"""Schedule: a collective as rounds of messages, in the global view: every rank at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.collectives.collective import Collective

TRANSFER = np.dtype(
    [
        ("src", np.int32),  # the rank that sends
        ("dst", np.int32),  # the rank that receives
        ("first", np.int32),  # first slot read at src
        ("into", np.int32),  # first slot written at dst
        ("count", np.int32),  # slots
        ("reduce", np.bool_),  # reduced into what dst holds, rather than copied over it
    ]
)
"""A range of slots sent from one rank to another. The transfers of one round between the same two
ranks, in one direction, are one message. One from a rank to itself moves data in its memory and is
no message."""

Round = NDArray[Any]
"""The transfers of one round, dtype TRANSFER, shape (transfers,)."""


def send(
    src: ArrayLike,
    dst: ArrayLike,
    first: ArrayLike,
    count: ArrayLike = 1,
    *,
    into: ArrayLike | None = None,
    reduce: bool = False,
) -> Round:
    """Transfers from each rank of ``src`` to that of ``dst``; arrays broadcast against each other.

    Slots [first, first + count) arrive in as many slots from ``into`` on, by default the same. A
    range that goes beyond the end of the vector wraps around.
    """
    into = first if into is None else into
    columns = src, dst, first, into, count
    transfers = np.empty(np.broadcast(*columns).shape, TRANSFER)
    for name, column in zip(("src", "dst", "first", "into", "count"), columns, strict=True):
        transfers[name] = column
    transfers["reduce"] = reduce
    return transfers.reshape(-1)


def together(*sends: Round) -> Round:
    """Several sends as one round."""
    return np.concatenate(sends) if sends else np.empty(0, TRANSFER)


@dataclass(frozen=True, eq=False)
class Schedule:
    """The messages of all ranks, round by round, that carry out one collective.

    A rank's memory is ``slots`` slots: the vector, cut into ``chunks`` chunks; where the collective
    has a separate result, as many for the result; then scratch. Rounds are local barriers: a rank
    enters the next one when its own messages of this one are done. Within a round a rank sends what
    its slots held at the beginning. Copies may arrive at once, but reductions are added after all
    its sends have left: first those within the rank, then message by message, in the order of their
    first transfers.
    """

    collective: Collective
    algorithm: str
    ranks: int
    root: int
    hosts: tuple[int, ...]
    chunks: int
    scratch: int
    generate: Callable[[], Iterator[Round]]

    @property
    def slots(self) -> int:
        """Slots in the memory of each rank."""
        return self.result + self.chunks + self.scratch

    @property
    def result(self) -> int:
        """The first slot of the result."""
        return self.chunks if self.collective.separate_result else 0

    def rounds(self) -> Iterator[Round]:
        """The rounds with any transfer, generated one by one; no range in them wraps."""
        for transfers in self.generate():
            counts = transfers["count"]
            moving = transfers if counts.min(initial=1) > 0 else transfers[counts > 0]
            if moving.size:
                yield self._unwrapped(moving)

    @cached_property
    def all_rounds(self) -> tuple[Round, ...]:
        """All rounds as a cached tuple, for repeated reading."""
        return tuple(self.rounds())

    def _unwrapped(self, transfers: Round) -> Round:
        """Cut each range that runs over the end of the vector, at src or at dst, in two."""
        for name, other in (("first", "into"), ("into", "first")):
            start = transfers[name]
            past = start + transfers["count"]
            if past.max() <= self.chunks:
                continue
            beyond = past - self.chunks
            wraps = (start < self.chunks) & (beyond > 0)
            if wraps.any():
                head, tail = transfers.copy(), transfers[wraps]
                head["count"][wraps] -= beyond[wraps]
                there = tail[other] + head["count"][wraps]
                tail[other] = np.where(tail[other] < self.chunks, there % self.chunks, there)
                tail[name] = 0
                tail["count"] = beyond[wraps]
                places = np.concatenate([np.arange(head.size), np.flatnonzero(wraps)])
                order = np.argsort(places, kind="stable")
                transfers = np.concatenate([head, tail])[order]
        return transfers
