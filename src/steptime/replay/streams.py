"""Streams: which op of a rank may begin when, with the semantics of CUDA streams and events.

Besides, the calls of one *channel*, a group or messages of one direction, begin in the order of the
list, since that is how they match those of other ranks.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from steptime.program import MAIN, Collective, Compute, Op, Recv, Send
from steptime.replay.extent import axes_of, label_of
from steptime.replay.transport import Pending

_MOST_COUNTED = 8192
"""Limit of ops for which the order is computed: that takes the square of it in bits."""


@dataclass(eq=False, slots=True)
class Turn:
    """One op of one step, which goes into ``queue`` when it may begin.

    ``missing`` counts its unmet conditions; ``pending`` and ``began`` are the caller's.
    """

    op: Op
    place: int
    step: "_Step"
    queue: "deque[Turn]"
    on_main: bool
    missing: int = 0
    begun: bool = False
    ended: bool = False
    pending: Pending | None = None
    began: float = 0.0


class _Condition(NamedTuple):
    """The op at a place, of the step before if ``back``, must have ended, or only begun."""

    place: int
    back: bool
    ended: bool


@dataclass(eq=False, slots=True)
class _Step:
    """The turns of a step, one an op; ``left`` counts those that have not ended."""

    number: int = 0
    left: int = 0
    turns: list[Turn] = field(default_factory=list)
    following: "_Step | None" = None


class _Next:
    """For each op, the ops that one of its events may let begin, in this step and the next."""

    def __init__(self, ops: int) -> None:
        self.same: list[list[int]] = [[] for _ in range(ops)]
        self.following: list[list[int]] = [[] for _ in range(ops)]


class Streams:
    """The ops that are still to be done, in the order in which they may begin.

    Each op counts down the conditions that it waits for as others begin and end, so an event costs
    as much as ops wait for it. ``calls`` and ``computations`` have the ops that may begin. All of
    this runs between calls, on a core whose caches the calls have emptied: so it allocates nothing,
    and calls little.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self.calls: deque[Turn] = deque()
        self.computations: deque[Turn] = deque()
        self._ops = ops
        self._conditions = _conditions(ops)
        self._at_begin, self._at_end = _Next(len(ops)), _Next(len(ops))
        self._back = []
        self._missing = [0] * len(ops)
        for place, conditions in enumerate(self._conditions):
            for condition in conditions:
                of = self._at_end if condition.ended else self._at_begin
                (of.following if condition.back else of.same)[condition.place].append(place)
                if condition.back:
                    self._back.append((place, condition))
                else:
                    self._missing[place] += 1
        self._free = [place for place, missing in enumerate(self._missing) if not missing]
        self._labels = [label_of(op) for op in ops]
        self._main = [place for place, op in enumerate(ops) if op.stream == MAIN]
        self._numbers, self._in_a_step = _numbers(ops)
        self._steps: deque[_Step] = deque()  # the last one is the newest
        self._behind = _behind(ops, self._at_begin.same, self._at_end.same)
        self._left = self._main_left = self._unbegun = 0

    def add_step(self, number: int) -> None:
        """Add a step, when the main stream has finished the steps before it."""
        step = self._new_step(number)
        self._left += step.left
        self._unbegun += step.left
        self._main_left += len(self._main)
        if self._steps:
            before = self._steps[-1]
            for place, (at, _, ended) in self._back:
                if not (before.turns[at].ended if ended else before.turns[at].begun):
                    step.turns[place].missing += 1
            before.following = step
        self._steps.append(step)
        for turn in [step.turns[place] for place in self._free]:
            if not turn.missing:
                turn.queue.append(turn)

    def _new_step(self, number: int) -> _Step:
        """A step in which nothing has begun, reusing a finished one."""
        if len(self._steps) > 1 and not self._steps[0].left:
            step = self._steps.popleft()
        else:
            step = _Step()
            for place, op in enumerate(self._ops):
                queue = self.computations if isinstance(op, Compute) else self.calls
                step.turns.append(Turn(op, place, step, queue, op.stream == MAIN))
        for turn, missing in zip(step.turns, self._missing, strict=True):
            turn.missing = missing
            turn.begun = turn.ended = False
        step.number, step.left, step.following = number, len(step.turns), None
        return step

    def number(self, turn: Turn) -> int:
        """The position of a turn in its channel, counted from the first step on."""
        return turn.step.number * self._in_a_step[turn.place] + self._numbers[turn.place]

    def main_is_done(self) -> bool:
        """Whether the main stream has finished all steps that were added."""
        return not self._main_left

    def done(self) -> bool:
        """Whether all ops of all steps have ended."""
        return not self._left

    def begin(self, turn: Turn) -> None:
        """Note that the op, which may begin, begins."""
        turn.begun = True
        self._unbegun -= 1
        self._event(turn, self._at_begin)

    def end(self, turn: Turn) -> None:
        """Note that the op, which has begun, has ended."""
        turn.ended = True
        turn.step.left -= 1
        self._left -= 1
        self._main_left -= turn.on_main
        self._event(turn, self._at_end)

    def _event(self, turn: Turn, lets: _Next) -> None:
        step, place = turn.step, turn.place
        for of, places in ((step, lets.same[place]), (step.following, lets.following[place])):
            if of is None:
                return
            for at in places:
                other = of.turns[at]
                other.missing -= 1
                if not other.missing:
                    other.queue.append(other)

    def all_wait_for(self, turn: Turn) -> bool:
        """Whether nothing can begin before this op, which has begun, has ended."""
        return self._unbegun == self._behind[turn.place]

    def held_up_by(self) -> str:
        """The axes whose communication the main stream ultimately waits for; empty if none."""
        if not self._main_left:
            return ""
        turn: Turn | None = self._steps[-1].turns[self._main[-self._main_left]]
        while turn is not None and not turn.begun:
            turn = self._unmet(turn)
        return self._labels[turn.place] if turn else ""

    def _unmet(self, turn: Turn) -> Turn | None:
        """The op of an unmet condition; None where none is known."""
        newest = turn.step is self._steps[-1]
        for at, back, ended in self._conditions[turn.place]:
            if back and (not newest or len(self._steps) < 2):
                continue
            other = (self._steps[-2] if back else turn.step).turns[at]
            if not (other.ended if ended else other.begun):
                return other
        return None


def _behind(
    ops: Sequence[Op], at_begin: Sequence[Sequence[int]], at_end: Sequence[Sequence[int]]
) -> list[int]:
    """How many ops of the same step can begin only after each has ended.

    -1 where none of them is of the main stream, which could then go on to the next step.
    """
    if len(ops) > _MOST_COUNTED:
        return [-1] * len(ops)
    main = sum(1 << place for place, op in enumerate(ops) if op.stream == MAIN)
    after_begin, after_end = [0] * len(ops), [0] * len(ops)  # sets of ops, a bit for each
    for place in reversed(range(len(ops))):
        for at in at_end[place]:
            after_end[place] |= 1 << at | after_begin[at]
        after_begin[place] = after_end[place]
        for at in at_begin[place]:
            after_begin[place] |= 1 << at | after_begin[at]
    return [behind.bit_count() if behind & main else -1 for behind in after_end]


def _conditions(ops: Sequence[Op]) -> list[list[_Condition]]:
    """The conditions of each op; the first of a stream or channel follows the last step's last."""
    found = []
    streams: dict[object, int] = {op.stream: place for place, op in enumerate(ops)}
    channels: dict[object, int] = {_channel(op): place for place, op in enumerate(ops)}
    seen: set[object] = set()
    for place, op in enumerate(ops):
        conditions = [_Condition(at % len(ops), at < 0, ended=True) for at in op.after]
        conditions.append(_Condition(streams[op.stream], op.stream not in seen, ended=True))
        channel = _channel(op)
        if channel is not None:
            conditions.append(_Condition(channels[channel], channel not in seen, ended=False))
        found.append(conditions)
        seen |= {op.stream, channel}
        streams[op.stream] = channels[channel] = place
    return found


def _numbers(ops: Sequence[Op]) -> tuple[list[int], list[int]]:
    """The position of each op in its channel within a step, and the length of that channel."""
    counts: Counter[object] = Counter()
    before = []
    for op in ops:
        channel = _channel(op)
        before.append(counts[channel])
        counts[channel] += 1
    return before, [counts[_channel(op)] for op in ops]


def _channel(op: Op) -> tuple[object, ...] | None:
    """The channel of an op, whose ops begin in the order of the list; None for computing."""
    if isinstance(op, Collective):
        return ("group", frozenset(axes_of(op)))
    if isinstance(op, Send | Recv):
        return (type(op).__name__, op.axis, op.by, op.tag)
    return None
