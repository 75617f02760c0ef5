"""Rounds: the messages of a schedule, generated batch by batch as ranks reach them."""

from collections.abc import Iterator
from functools import cache
from math import log2
from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.collectives import TRANSFER, Algorithm, Round, Schedule, algorithms
from steptime.collectives import schedule as scheduled
from steptime.collectives.execute import slot_offsets
from steptime.simulate.network.engine import gather

BATCH = 1 << 11
"""Transfers of a batch, unless a single round has more: their messages stay in a core's cache."""


_SHORT = 256  # schedules of one batch that are remembered
_SMALL = 512  # ranks up to which no round is large


class Batch(NamedTuple):
    """The messages of some consecutive rounds.

    ``ranks``: sender and receiver, shape (2, messages); ``round``, ``nbytes`` and ``reduced``, the
    bytes that the receiver reduces: shape (messages,). ``last``: whether no batch follows.
    """

    ranks: Ints
    round: Ints
    nbytes: Floats
    reduced: Floats
    last: bool


class Reader:
    """Reads the messages of schedules, and caches those of short ones.

    ``inside``: whether reductions within a rank's memory count, as messages to itself.
    """

    def __init__(self, *, inside: bool) -> None:
        self._inside = inside
        self._short: dict[tuple[Schedule, int], Batch] = {}

    def batches(self, schedule: Schedule, nbytes: int) -> Iterator[Batch]:
        """The messages for a vector of ``nbytes`` bytes a rank, by rounds; at least one batch."""
        if (schedule, nbytes) in self._short:
            yield self._short[schedule, nbytes]
            return
        offsets = np.asarray(slot_offsets(schedule, nbytes))
        read: list[Round] = []
        transfers = first = 0
        for number, moving in enumerate(schedule.rounds()):
            read.append(moving)
            transfers += moving.size
            if transfers >= BATCH:
                yield self._batch(read, first, offsets, schedule.ranks, last=False)
                read, transfers, first = [], 0, number + 1
        batch = self._batch(read, first, offsets, schedule.ranks, last=True)
        if not first and len(self._short) < _SHORT:
            self._short[schedule, nbytes] = batch
        yield batch

    def _batch(
        self, read: list[Round], first: int, offsets: Longs, ranks: int, *, last: bool
    ) -> Batch:
        bounds = np.cumsum([0, *(moving.size for moving in read)])
        size = int(bounds[-1])
        ends, number = np.empty((2, size), np.int32), np.empty(size, np.int32)
        nbytes, reduced = np.zeros((2, size))
        joined = b"".join(moving.data for moving in read)  # NumPy would copy row by row
        count = gather(
            np.frombuffer(joined, TRANSFER),
            bounds,
            first,
            offsets,
            self._inside,
            (ends, number, nbytes, reduced),
            (np.empty(ranks + 1, np.int64), np.empty(size, np.int64), np.full(ranks, -1)),
        )
        ends = np.ascontiguousarray(ends[:, :count])
        return Batch(ends, number[:count], nbytes[:count], reduced[:count], last)


def largest_round(schedule: Schedule) -> float:
    """An estimate of the transfers in the largest round of a shipped algorithm; 0 of few ranks.

    It generates no large schedule: it extrapolates from two smaller numbers of ranks.
    """
    known = algorithms(schedule.collective.name).get(schedule.algorithm)
    if known is None or schedule.ranks <= _SMALL:
        return 0.0
    smaller, larger = (_largest(known, ranks) for ranks in (_SMALL // 8, _SMALL // 4))
    return float(larger * (larger / smaller) ** log2(schedule.ranks / (_SMALL // 4)))


@cache
def _largest(chosen: Algorithm, ranks: int) -> int:
    return max(transfers.size for transfers in scheduled(chosen, ranks).rounds())
