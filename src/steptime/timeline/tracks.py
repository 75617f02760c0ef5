"""Tracks: the rows of a viewer on which intervals and the ends of messages lie.

An interval belongs to a rank and a stream, and intervals of one stream may overlap. Viewers want
tracks, on each of which slices nest or are disjoint. Times are whole nanoseconds, so that what
nests in seconds still does after rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.timeline.timeline import Phase, Timeline

NONE = -1


@dataclass(frozen=True, eq=False)
class Track:
    """Some intervals of one rank and stream, in the order of their begin, long before short.

    ``number``: counted from 0 within the rank. ``rows``: indices into the timeline's intervals;
    ``start`` and ``end``: nanoseconds; all of shape (intervals,).
    """

    rank: int
    number: int
    stream: int
    rows: Longs
    start: Longs
    end: Longs


def nanoseconds(seconds: Floats) -> Longs:
    """Seconds as whole nanoseconds."""
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def tracks(timeline: Timeline, *, nested: bool) -> dict[int, list[Track]]:
    """The tracks of every rank that has intervals, by stream.

    Without ``nested`` the intervals of a track are disjoint.
    """
    intervals = timeline.intervals
    start, end = nanoseconds(intervals["start"]), nanoseconds(intervals["end"])
    order = np.lexsort((-end, start, intervals["stream"], intervals["rank"]))
    found: dict[int, list[Track]] = {}
    for rank, stream, rows in _by_stream(timeline, order):
        lanes = _lanes(start[rows], end[rows], nested=nested)
        of_rank = found.setdefault(rank, [])
        for lane in range(int(lanes.max()) + 1):
            own = rows[lanes == lane]
            of_rank.append(Track(rank, len(of_rank), stream, own, start[own], end[own]))
    return found


def _by_stream(timeline: Timeline, order: Longs) -> Iterator[tuple[int, int, Longs]]:
    """For each stream of each rank: the rank, the stream and its rows, in order."""
    rows = timeline.intervals[order]
    both = np.stack([rows["rank"].astype(np.int64), rows["stream"].astype(np.int64)])
    cuts = np.flatnonzero((np.diff(both, axis=1) != 0).any(axis=0)) + 1
    for part in np.split(order, cuts):
        if part.size:
            first = timeline.intervals[part[0]]
            yield int(first["rank"]), int(first["stream"]), part


def _lanes(start: Longs, end: Longs, *, nested: bool) -> Longs:
    """The lane of each interval, the lowest on which it fits: shape (intervals,)."""
    if start.size < 2 or (end[:-1] <= start[1:]).all():
        return np.zeros(start.size, np.int64)
    lanes = np.empty(start.size, np.int64)
    open_ends: list[list[int]] = []  # of each lane: the ends of the intervals around the next one
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for lane, ends in enumerate(open_ends):
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or (nested and finish <= ends[-1]):
                ends.append(finish)
                lanes[row] = lane
                break
        else:
            lanes[row] = len(open_ends)
            open_ends.append([finish])
    return lanes


def ends_on_tracks(
    timeline: Timeline, of_ranks: dict[int, list[Track]], ranks: Longs, at: Longs
) -> tuple[Longs, Longs]:
    """The track on which each end of a message lies, and when the slice around it begins.

    ``ranks`` and ``at``, nanoseconds: of each end, shape (ends,). A track with communication at
    that instant is preferred. NONE, and the instant itself, where nothing runs then.
    """
    number, begin = np.full(at.size, NONE, np.int64), at.copy()
    for rank, own in of_ranks.items():
        here = np.flatnonzero(ranks == rank)
        if not here.size:
            continue
        for track in sorted(own, key=lambda t: _unlike_communication(timeline, t)):
            left = here[number[here] == NONE]
            latest = np.maximum.accumulate(track.end)
            place = np.searchsorted(track.start, at[left], side="right") - 1
            around = (place >= 0) & (latest[place] > at[left])
            number[left[around]] = track.number
            begin[left[around]] = track.start[place[around]]
    return number, begin


def _unlike_communication(timeline: Timeline, track: Track) -> int:
    """Sort key of tracks: 0 for communication, 1 for any other, 2 for the steps."""
    phases = timeline.intervals["phase"][track.rows]
    if (phases == Phase.COMMUNICATION).any():
        return 0
    return 2 if (phases == Phase.STEP).all() else 1
