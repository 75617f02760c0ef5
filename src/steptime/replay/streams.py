"""The streams of a rank: which op may begin when, as CUDA streams and events have it.

Beside that, calls of one group and messages of one way begin in the order of the list: that is how
they meet those of the other ranks.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptime.program import MAIN, Collective, Op, Recv, Send
from steptime.replay.calls import Pending
from steptime.replay.demand import axes_of, label_of


@dataclass(eq=False)
class Turn:
    """One op of one step. ``number``: how many before it had to begin in the same order."""

    op: Op
    place: int
    step: int
    after: tuple["Turn", ...]
    way: tuple[object, ...] | None
    number: int = 0
    pending: Pending | None = None
    began: float = 0.0
    begun: bool = False
    ended: bool = False


class Streams:
    """The ops that are still to be done, in the order in which they may begin."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = ops
        self._before: list[Turn] = []
        self._streams: dict[str, deque[Turn]] = {op.stream: deque() for op in ops}
        self._streams.setdefault(MAIN, deque())
        self._ways: dict[tuple[object, ...], deque[Turn]] = {}
        self._numbers: Counter[tuple[object, ...]] = Counter()

    def add_step(self, step: int) -> None:
        """Add a step behind what is there."""
        turns: list[Turn] = []
        for place, op in enumerate(self._ops):
            after = tuple(
                turns[at] if at >= 0 else self._before[at]
                for at in op.after
                if at >= 0 or self._before
            )
            turn = Turn(op, place, step, after, _way(op))
            turns.append(turn)
            self._streams[op.stream].append(turn)
            if turn.way is not None:
                turn.number = self._numbers[turn.way]
                self._numbers[turn.way] += 1
                self._ways.setdefault(turn.way, deque()).append(turn)
        for old in self._before:
            old.after = ()  # else every step would hold on to the one before
        self._before = turns

    @property
    def main_is_done(self) -> bool:
        """Whether the main stream has come to the end of the steps that were added."""
        return not self._streams[MAIN]

    @property
    def done(self) -> bool:
        """Whether everything has been done."""
        return not any(self._streams.values())

    def ready(self) -> Iterator[Turn]:
        """The ops that may begin now, at most one of each stream."""
        for queue in self._streams.values():
            if queue and not queue[0].begun and self._may_begin(queue[0]):
                yield queue[0]

    def begin(self, turn: Turn) -> None:
        """The op, which is ready, begins."""
        turn.begun = True
        if turn.way is not None:
            self._ways[turn.way].popleft()

    def end(self, turn: Turn) -> None:
        """The op, which has begun, is done."""
        turn.ended = True
        self._streams[turn.op.stream].popleft()

    def held_up_by(self) -> str:
        """The axes whose communication the main stream waits for in the end; empty if none."""
        main = self._streams[MAIN]
        turn = main[0] if main else next((q[0] for q in self._streams.values() if q), None)
        while turn is not None and not turn.begun:
            turn = self._before_it(turn)
        return label_of(turn.op) if turn and isinstance(turn.op, Collective | Send | Recv) else ""

    def _before_it(self, turn: Turn) -> Turn | None:
        """One of those that must begin or end first."""
        first = self._streams[turn.op.stream][0]
        if first is not turn:
            return first
        unmet = [other for other in turn.after if not other.ended]
        if unmet:
            return unmet[0]
        return self._ways[turn.way][0] if turn.way is not None else None

    def _may_begin(self, turn: Turn) -> bool:
        in_turn = turn.way is None or self._ways[turn.way][0] is turn
        return in_turn and all(other.ended for other in turn.after)


def _way(op: Op) -> tuple[object, ...] | None:
    """What ops must have in common to begin in the order of the list."""
    if isinstance(op, Collective):
        return ("group", frozenset(axes_of(op)))
    if isinstance(op, Send | Recv):
        return (type(op).__name__, op.axis, op.by, op.tag)
    return None
