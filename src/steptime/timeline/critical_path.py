"""The critical path of a step: the chain of work and waiting that made it as long as it was.

The path is walked back from the step's last end. A Timeline does not hold dependencies, so they are
inferred: the order of a stream; a message's two ends; a collective, which no member leaves before
the last has come; and otherwise the interval of the same rank that ended last. Holistic Trace
Analysis and Scalasca search for it in the same way.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Longs
from steptime.timeline.timeline import Phase, Timeline

PIECE = np.dtype(
    [
        ("rank", np.int32),
        ("interval", np.int64),  # index into Timeline.intervals, -1 where the rank did nothing
        ("start", np.float64),  # seconds
        ("end", np.float64),  # seconds
    ]
)

_TOLERANCE = 1e-4  # of the step: so far apart two instants count as one
_WORK = (Phase.COMPUTE, Phase.UPDATE, Phase.OTHER)
_POINT_TO_POINT = ("send", "receive", "recv")  # how the names of messages' ends begin


def critical_path(timeline: Timeline, steps: NDArray[np.void]) -> NDArray[np.void]:
    """The pieces of the path, dtype PIECE, in order of time.

    ``steps`` are the STEP intervals of one step, one a rank. The pieces follow one another without
    a gap: together they last from the begin of the step on the rank where the path starts to the
    last end on any rank. Ranks without a STEP interval take no part.
    """
    if not len(steps):
        return np.empty(0, PIECE)
    walk = _Walk(timeline, steps)
    last = steps[int(np.argmax(steps["end"]))]
    pieces = list(walk.back(int(last["rank"]), float(last["end"])))
    return np.array(pieces[::-1], PIECE)


@dataclass(frozen=True)
class _Reason:
    """Why an interval could end: at ``time`` the last participant, ``rank``, had arrived."""

    rank: int
    time: float
    stream: int


class _Walk:
    """The intervals of one step, indexed for walking back."""

    def __init__(self, timeline: Timeline, steps: NDArray[np.void]) -> None:
        steps = np.sort(steps, order="rank")
        rows = timeline.intervals
        self.rows = rows
        self.messages = timeline.messages
        self.tolerance = _TOLERANCE * float(steps["end"].max() - steps["start"].min())
        self.begin = dict(zip(steps["rank"].tolist(), steps["start"].tolist(), strict=True))
        place = np.searchsorted(steps["rank"], rows["rank"]).clip(max=len(steps) - 1)
        candidates = (steps["rank"][place] == rows["rank"]) & (rows["phase"] != Phase.STEP)
        candidates &= (rows["end"] > rows["start"]) & (rows["end"] > steps["start"][place])
        found = np.flatnonzero(candidates & (rows["start"] < steps["end"][place]))
        found = found[np.lexsort((rows["start"][found], rows["rank"][found]))]
        bounds = np.searchsorted(rows["rank"][found], steps["rank"], side="left")
        parts = np.split(found, bounds[1:])
        self.own = dict(zip(self.begin, parts, strict=True))
        self._match(timeline, found)

    def _match(self, timeline: Timeline, found: Longs) -> None:
        """Match the intervals of each collective: the n-th of a name on each rank is the same call.

        ``found``: the intervals of the step, by rank and begin.
        """
        names = np.array([name.startswith(_POINT_TO_POINT) for name in timeline.names], np.bool_)
        rows = self.rows[found]
        calls = found[(rows["phase"] == Phase.COMMUNICATION) & ~names[rows["name"]]]
        keys = np.stack([self.rows["name"][calls], self.rows["rank"][calls]]).astype(np.int64)
        order = np.lexsort(keys)  # stable: of one rank and name in order of begin
        first = np.flatnonzero(np.diff(keys[:, order], prepend=-1).any(axis=0))
        counts = np.diff(np.append(first, len(calls)))
        before = np.empty(len(calls), np.int64)
        before[order] = np.arange(len(calls)) - np.repeat(first, counts)
        by_instance = np.lexsort((before, keys[0]))
        self.calls = calls[by_instance]
        both = np.stack([keys[0], before])[:, by_instance]
        instance = np.cumsum(np.diff(both, prepend=-1).any(axis=0)) - 1
        self.instance_of = dict(zip(self.calls.tolist(), instance.tolist(), strict=True))
        self.first_of = np.searchsorted(instance, np.arange(int(instance.max(initial=-1)) + 2))

    def back(self, rank: int, time: float) -> Iterator[tuple[int, int, float, float]]:
        """The pieces from ``time`` on ``rank`` back to the begin of the step, last first."""
        stream = -1
        while time > self.begin[rank]:
            at = self._before(rank, time, stream)
            if at < 0 or self.rows["end"][at] < time - self.tolerance:
                # Nothing ended just now: the rank waited, or did what nobody recorded.
                since = self.begin[rank] if at < 0 else float(self.rows["end"][at])
                yield rank, self._waiting(rank, time), since, time
                time, stream = since, -1
                continue
            reason = self._reason(rank, at, time)
            yield rank, at, reason.time, time
            rank, time, stream = reason.rank, reason.time, reason.stream

    def _before(self, rank: int, time: float, stream: int) -> int:
        """The interval after which ``rank`` could go on at ``time`` on ``stream``; -1 for none.

        Preferred: one that ended at ``time``, on the same stream rather than another; then work in
        progress; then what ended last.
        """
        own = self.own[rank]
        rows = self.rows[own]
        found = np.flatnonzero((rows["start"] < time) & (rows["phase"] != Phase.WAIT))
        if not found.size:
            return -1
        rows = rows[found]
        late = rows["end"] - time
        now = np.abs(late) <= self.tolerance
        work = np.isin(rows["phase"], _WORK)
        if now.any():
            order = np.lexsort((rows["end"], work, rows["stream"] == stream, now))
        elif (work & (late > 0)).any():
            order = np.lexsort((rows["start"], work & (late > 0)))
        elif (late <= 0).any():
            order = np.lexsort((rows["end"], late <= 0))
        else:
            return -1
        return int(own[found[order[-1]]])

    def _waiting(self, rank: int, time: float) -> int:
        """The WAIT interval of ``rank`` just before ``time``, or -1."""
        own = self.own[rank]
        rows = self.rows[own]
        reach = (rows["phase"] == Phase.WAIT) & (rows["start"] < time)
        reach &= rows["end"] >= time - self.tolerance
        return int(own[np.flatnonzero(reach)[-1]]) if reach.any() else -1

    def _reason(self, rank: int, at: int, time: float) -> _Reason:
        """Whose arrival let the interval ``at`` end: its own rank's, or a later rank's."""
        row = self.rows[at]
        start = max(float(row["start"]), self.begin[rank])
        stream = int(row["stream"])
        own = _Reason(rank, start, stream)
        if row["phase"] != Phase.COMMUNICATION:
            return own
        if at in self.instance_of:
            instance = self.instance_of[at]
            members = self.rows[self.calls[slice(*self.first_of[instance : instance + 2])]]
            late = (members["start"] > start) & (members["start"] < time)
            late &= members["end"] > start
            later = members[late]
            later = later[[self.begin[r] < came for r, came in later[["rank", "start"]].tolist()]]
            if len(later):
                last = later[int(np.argmax(later["start"]))]
                return _Reason(int(last["rank"]), float(last["start"]), int(last["stream"]))
        return self._message(rank, row, own, time)

    def _message(self, rank: int, row: np.void, own: _Reason, time: float) -> _Reason:
        """``_reason`` for one end of a message, which starts when both ends are reached."""
        sent = self.messages
        if not len(sent):
            return own
        candidates = ((sent["src"] == rank) | (sent["dst"] == rank)) & (
            sent["bytes"] == row["bytes"]
        )
        candidates &= (sent["sent"] > own.time + self.tolerance) & (sent["sent"] < time)
        candidates &= sent["received"] <= float(row["end"]) + self.tolerance
        if not candidates.any():
            return own
        last = sent[candidates][int(np.argmax(sent["sent"][candidates]))]
        other = int(last["src"] if last["dst"] == rank else last["dst"])
        if other not in self.begin or float(last["sent"]) <= self.begin[other]:
            return own
        return _Reason(other, float(last["sent"]), own.stream)
