"""What the main stream of a simulated rank waited for, by the same rules as on live ranks."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from steptime.arrays import Floats
from steptime.program import MAIN, Compute, Op, Recv, Send
from steptime.replay.extent import label_of
from steptime.timeline import Phase

Instance = tuple[int, int]
"""A step and the place of an op in the rank's list."""

_Count = Callable[[str, float], None]


class RankTimes:
    """When the ops of a rank started and ended: seconds, both of shape (steps, ops)."""

    def __init__(self, ops: Sequence[Op], starts: Floats, ends: Floats) -> None:
        self.ops = ops
        self.labels = _labels(ops)
        self.starts = starts.tolist()
        self.ends = ends.tolist()
        self._streams: dict[str, list[Instance]] = {}
        for step in range(len(self.ends)):
            for place, op in enumerate(ops):
                self._streams.setdefault(op.stream, []).append((step, place))
        self._ended = {
            stream: np.array([self.ends[step][place] for step, place in turns])
            for stream, turns in self._streams.items()
        }

    def under_way(self, label: str) -> float:
        """Seconds that the calls of the last step along some axes took, added up."""
        return float(
            sum(
                self.ends[-1][place] - self.starts[-1][place]
                for place, own in enumerate(self.labels)
                if own == label
            )
        )

    def main(self) -> Iterator[tuple[str, float, float]]:
        """What the main stream computes, in its order, with start and end.

        ``compute``, ``update``, or the axes of the messages whose posting took it time.
        """
        for step, place in self._streams.get(MAIN, []):
            op = self.ops[place]
            if isinstance(op, Compute):
                own = "update" if op.phase == Phase.UPDATE else "compute"
                what = self.labels[place] or own
                yield what, self.starts[step][place], self.ends[step][place]

    def held_up_by(self, now: float) -> tuple[str, float] | None:
        """The axes whose call the main stream waits for, and when that call ends."""
        turn = self._first(MAIN, now)
        while turn is not None:
            step, place = turn
            op = self.ops[place]
            label = self.labels[place]
            if label and self.starts[step][place] <= now:
                return label, self.ends[step][place]
            turn = self._before(turn, op, now)
        return None

    def _first(self, stream: str, now: float) -> Instance | None:
        """The first op of a stream that has not ended."""
        turns = self._streams.get(stream, [])
        at = int(np.searchsorted(self._ended[stream], now, side="right")) if turns else 0
        return turns[at] if at < len(turns) else None

    def _before(self, turn: Instance, op: Op, now: float) -> Instance | None:
        """An op that must end before another can start."""
        first = self._first(op.stream, now)
        if first != turn:
            return first
        for at in op.after:
            step, place = (turn[0], at) if at >= 0 else (turn[0] - 1, len(self.ops) + at)
            if step >= 0 and self.ends[step][place] > now:
                return step, place
        return None


def _labels(ops: Sequence[Op]) -> list[str]:
    """The axes that each op communicates along, empty where it computes.

    What a call costs beyond its messages is the call's too (``simulate/call_costs.py``): its being
    late stands right before it, posting messages somewhere behind the last of them.
    """
    labels = [label_of(op) for op in ops]
    of_messages = ""
    for place, (op, behind) in enumerate(zip(ops, (*labels[1:], ""), strict=True)):
        if isinstance(op, Send | Recv):
            of_messages = labels[place]
        elif isinstance(op, Compute) and op.phase is Phase.COMMUNICATION:
            labels[place] = behind or of_messages
    return labels


def spent_by(times: RankTimes, begin: float, end: float) -> dict[str, float]:
    """The seconds from ``begin`` to ``end``, by what the main stream of a rank did.

    ``compute``, ``update``, and the axes whose communication it waited for.
    """
    spent: dict[str, float] = {}

    def count(what: str, seconds: float) -> None:
        spent[what] = spent.get(what, 0.0) + seconds

    now = begin
    for what, start, until in times.main():
        if until <= begin:
            continue
        _wait(times, now, min(start, end), count)
        if start >= end:
            return spent
        until = min(until, end)
        count(what, until - max(start, now))
        now = until
    _wait(times, now, end, count)
    return spent


def _wait(times: RankTimes, now: float, until: float, count: _Count) -> None:
    """Count a time in which the main stream computes nothing."""
    while now < until and (held := times.held_up_by(now)) is not None:
        label, ends = held
        count(label, min(ends, until) - now)
        now = ends
