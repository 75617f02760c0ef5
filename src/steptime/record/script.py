"""One rank's step as ops: what its script computed, called and waited for, in its order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from steptime.program import Collective, Compute, Op, Recv, Send, Wait
from steptime.record.steps import RankStep
from steptime.record.timeline import parts
from steptime.record.waits import awaited
from steptime.timeline import Phase

CallOp: TypeAlias = Collective | Send | Recv

_SHORTEST_NS = 5_000
"""What a script does for less time between two calls counts with what it does next."""


class _What(IntEnum):
    """What happens, in the order in which it does within the same nanosecond."""

    PART = 0
    """Another part of the step begins."""
    WAITED = 1
    CALL = 2
    WAITS = 3


@dataclass(frozen=True)
class _Moment:
    """When something happens that changes what the script does, on the rank's clock.

    ``calls``: which are made or waited for, by number; those of the step before count from -1 down.
    """

    when: int
    what: _What
    calls: tuple[int, ...] = ()
    label: str = ""
    phase: Phase = Phase.COMPUTE


def ops_of(step: RankStep, calls: Sequence[CallOp], unawaited: Sequence[bool]) -> tuple[Op, ...]:
    """The ops of a rank's step, whose ``calls`` are given without what they come after.

    ``unawaited``: which of them the script did not wait for, whatever it seems.
    """
    script = _Script()
    now = step.begin
    moments = _moments(step, calls, unawaited)
    for moment in sorted(moments, key=lambda one: (one.when, one.what)):
        script.pass_time(moment.when - now)
        now = moment.when
        match moment.what:
            case _What.PART:
                script.begin_part(moment.label, moment.phase)
            case _What.CALL:
                script.call(calls[moment.calls[0]])
            case _What.WAITS:
                script.waiting += 1
            case _What.WAITED:
                script.end_wait(moment.calls)
    script.pass_time(max(0, step.end - now))
    return script.finish()


def _moments(
    step: RankStep, calls: Sequence[CallOp], unawaited: Sequence[bool]
) -> Iterator[_Moment]:
    for label, phase, begin, _ in parts(step.log, np.array([step.begin, step.end])):
        yield _Moment(begin, _What.PART, label=label, phase=phase)
    times = step.log.calls[["issued", "returned"]][step.rows].tolist()
    for number, (issued, returned) in enumerate(times):
        yield _Moment(issued, _What.CALL, (number,))
        if isinstance(calls[number], Send | Recv) and issued < returned <= step.end:
            # A library may write or read a message in the very call: that is no work of the script.
            yield _Moment(issued, _What.WAITS)
            yield _Moment(returned, _What.WAITED)
    numbers = {row: n for n, row in enumerate(step.rows) if not unawaited[n]}
    if len(step.rows_before) == len(step.rows):  # else which of them this step repeats is unknown
        numbers |= {row: -1 - n for n, row in enumerate(step.rows_before)}
    for wait in awaited(step.log):
        begin, end = max(wait.begin, step.begin), min(wait.end, step.end)
        found = tuple(numbers[row] for row in wait.calls if row in numbers)
        if found and end > begin - 1 and wait.end >= step.begin:
            yield _Moment(begin, _What.WAITS)
            yield _Moment(max(end, begin + 1), _What.WAITED, found)


@dataclass
class _Script:
    """The list of ops in the making, and where the script stands in it.

    ``last``: the place of the last op on MAIN. ``awaited``: the calls, by number, whose end the
    script has seen since. ``places``: those of the calls. ``waiting``: how many waits it is in.
    """

    ops: list[Op] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    last: int | None = None
    awaited: list[int] = field(default_factory=list)
    waiting: int = 0
    computed_ns: int = 0
    label: str = "other code"
    phase: Phase = Phase.COMPUTE

    def pass_time(self, nanoseconds: int) -> None:
        """The script goes on, and computes unless it waits."""
        self.computed_ns += nanoseconds if not self.waiting else 0

    def begin_part(self, label: str, phase: Phase) -> None:
        """What follows is another part of the step."""
        self._compute(_SHORTEST_NS)
        self.label, self.phase = label, phase

    def call(self, op: CallOp) -> None:
        """A call is made: it comes after all that the script has done and waited for."""
        self._compute(_SHORTEST_NS)
        self.places.append(len(self.ops))
        self.ops.append(replace(op, after=(*self._here(), *self._ends())))

    def end_wait(self, calls: Sequence[int]) -> None:
        """The script goes on because some calls are done."""
        self._compute(_SHORTEST_NS)
        self.waiting -= 1
        self.awaited += [call for call in calls if call not in self.awaited]

    def finish(self) -> tuple[Op, ...]:
        """The whole list."""
        self._compute(1)
        if self.awaited or self.last is None:
            self._on_main(Wait(name="wait", after=self._ends()))
        return tuple(replace(op, after=tuple(map(self._resolved, op.after))) for op in self.ops)

    def _compute(self, least: int) -> None:
        if self.computed_ns >= least:
            seconds, self.computed_ns = self.computed_ns / 1e9, 0
            self._on_main(
                Compute(name=self.label, seconds=seconds, phase=self.phase, after=self._ends())
            )

    def _on_main(self, op: Op) -> None:
        self.last, self.awaited = len(self.ops), []
        self.ops.append(op)

    def _here(self) -> tuple[int, ...]:
        """The last op on MAIN, of this step or of the one before."""
        return (_END_OF_STEP_BEFORE if self.last is None else self.last,)

    def _ends(self) -> tuple[int, ...]:
        """The calls waited for, by their places where these are known already."""
        return tuple(
            self.places[call] if call >= 0 else _STEP_BEFORE + call for call in self.awaited
        )

    def _resolved(self, after: int) -> int:
        """A place in the list, or, of the step before, from its end."""
        if after == _END_OF_STEP_BEFORE:
            assert self.last is not None  # noqa: S101
            return self.last - len(self.ops)
        if after < 0:
            return self.places[-1 - (after - _STEP_BEFORE)] - len(self.ops)
        return after


_END_OF_STEP_BEFORE = -1
_STEP_BEFORE = -2
"""Standing for what is known when the list is whole: calls of the step before count on from it."""
