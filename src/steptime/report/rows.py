"""The rows of the figure of a step: which rank and stream each is of, and its lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steptime.report.steps import Window
from steptime.timeline import Phase, Timeline

MOST_ROWS = 64
"""With more rows than this, of ranks that are all unfolded, streams beside the first share one."""

UNFOLDED = 32
"""So many ranks are shown one by one at a time, the others folded."""

_STREAMS = ("compute", "comm")


@dataclass(frozen=True, eq=False)
class Layout:
    """``rows``: each one's rank, by place in ``ranks``, and its label; in order from the top.

    ``ranks``: the first of each of ``kinds``, ranks that share their rows. ``streams``: indices
    into the timeline's, in order. ``merged``: whether the streams but the first share one row a
    rank.
    """

    all_ranks: NDArray[np.int32]
    ranks: NDArray[np.int32]
    kinds: list[list[int]]
    streams: tuple[int, ...]
    rows: list[tuple[int, str]]
    merged: bool

    @cached_property
    def _row_of(self) -> dict[int, int]:
        return {stream: min(at, 1) if self.merged else at for at, stream in enumerate(self.streams)}

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return {rank: place for place, kind in enumerate(self.kinds) for rank in kind}

    @property
    def each(self) -> int:
        """The rows of one rank."""
        return max(self._row_of.values(), default=0) + 1

    def row(self, rank: int, stream: int) -> int:
        """The row of a rank's stream, the first of its rows for an unknown one; -1: not shown."""
        place = self._place_of.get(rank, -1)
        return place if place < 0 else place * self.each + self._row_of.get(stream, 0)

    def places(self, ranks: NDArray[np.int32]) -> NDArray[np.int64]:
        """The place in ``ranks`` of the kind of each of some ranks, the same shape; -1: not shown.

        A timeline may name ranks that it holds nothing of.
        """
        known, which = np.unique(ranks, return_inverse=True)
        found = [self._place_of.get(rank, -1) for rank in known.tolist()]
        return np.array(found, np.int64)[which]

    def placed(
        self, shown: Window
    ) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The intervals of a step but the STEPs; the row of each, its lane, and of how many."""
        rows = shown.rows[shown.rows["phase"] != Phase.STEP]
        table = np.zeros(max(self.streams, default=0) + 1, np.int64)
        for stream, row in self._row_of.items():
            table[stream] = row
        row_of = np.searchsorted(self.ranks, rows["rank"]) * self.each + table[rows["stream"]]
        return rows, row_of, *lanes(rows, row_of)


def layout_of(timeline: Timeline, windows: Sequence[Window], kinds: Sequence[list[int]]) -> Layout:
    """The rows of some steps of a strategy, the same for all of them.

    ``kinds``: of each rank shown those that do the same.
    """
    rows = np.concatenate([one.rows for one in windows])
    rows = rows[rows["phase"] != Phase.STEP]
    streams = _in_order(timeline, rows)
    ranks = windows[0].ranks
    merged = min(len(ranks), UNFOLDED) * len(streams) > MOST_ROWS and len(streams) > 2
    labels = [timeline.streams[stream] for stream in streams] or ["step"]
    if merged:
        labels = [labels[0], "other streams"]
    each = [(place, text) for place in range(len(ranks)) for text in labels]
    of = {kind[0]: kind for kind in kinds}
    shown = [of[rank] for rank in ranks.tolist()]
    return Layout(windows[0].whole["rank"], ranks, shown, tuple(streams), each, merged)


def _in_order(timeline: Timeline, rows: NDArray[np.void]) -> list[int]:
    """Streams that hold any of ``rows``: compute, comm right beneath it, then the others."""
    used = [int(stream) for stream in np.unique(rows["stream"])]
    known = [s for want in _STREAMS for s in used if timeline.streams[s] == want]
    return known + [stream for stream in used if stream not in known]


def lanes(
    rows: NDArray[np.void], row_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A lane for every interval, and of how many: those of one row's lane do not overlap.

    Both of shape (rows,). Only where intervals overlap is a row divided; within a nanosecond they
    may, since clocks are read to no less.
    """
    lane, of = np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64)
    order = np.lexsort((rows["end"], rows["start"], row_of))
    start, end, row = rows["start"][order], rows["end"][order], row_of[order]
    apart = start >= _latest_before(end, row) - 1e-9  # what begins when all before it has ended
    first = np.flatnonzero(apart)
    past = np.append(first[1:], len(rows))
    for one, next_one in zip(first[past - first > 1], past[past - first > 1], strict=True):
        ends: list[float] = []
        for at in range(one, next_one):
            free = next((i for i, busy in enumerate(ends) if busy <= start[at] + 1e-9), len(ends))
            ends[free : free + 1] = [float(end[at])]
            lane[order[at]] = free
        of[order[one:next_one]] = len(ends)
    return lane, of


def _latest_before(end: NDArray[np.float64], row: NDArray[np.int64]) -> NDArray[np.float64]:
    """The latest end of those before each in its own row, -inf where there is none."""
    latest = np.full(len(end), -np.inf)
    if len(end) > 1:
        low = float(end.min())
        lift = (float(end.max()) - low + 1.0) * row  # rows in order: the running maximum is own
        running = np.maximum.accumulate(end - low + lift)
        same = row[1:] == row[:-1]
        latest[1:][same] = (running[:-1] - lift[1:] + low)[same]
    return latest
