"""Recorder: writes a Timeline while a rank runs: two clock readings and one append per interval."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from steptime import clock as clocks
from steptime.timeline.timeline import INTERVAL, MESSAGE, Phase, Timeline


class _Span(NamedTuple):
    stream: str
    name: str
    phase: Phase
    step: int
    start: Any
    end: Any
    bytes: int


class Recorder:
    """Collects the intervals of one rank.

    ``clock`` returns a mark and ``seconds`` converts a mark to seconds once the run is over. On a
    CPU a mark is already ``steptime.clock.now()``, which all processes of a host share; on a GPU it
    is an event that is read only at the end, so that recording never waits for the device. Only the
    last ``kept_steps`` steps are kept. ``core_s``: by step and phase the seconds of a core that the
    rank's own thread needed, but for waiting; of the phase STEP, all of the step.
    """

    def __init__(
        self,
        clock: Callable[[], Any] = clocks.now,
        seconds: Callable[[Any], float] = float,
        kept_steps: int = 1000,
    ) -> None:
        self.clock = clock
        self.step = 0
        self._seconds = seconds
        self._kept_steps = kept_steps
        self._spans: deque[_Span] = deque()
        self.core_s: dict[int, dict[Phase, float]] = {}

    def begin_step(self, step: int) -> None:
        """Count intervals to ``step`` from now on, and forget steps that are no longer kept."""
        self.step = step
        self.core_s.pop(step - self._kept_steps, None)
        while self._spans and self._spans[0].step <= step - self._kept_steps:
            self._spans.popleft()

    @contextmanager
    def span(self, stream: str, name: str, phase: Phase, payload: int = 0) -> Iterator[None]:
        """Record what runs inside the ``with`` block; ``payload`` is in bytes."""
        start = self.clock()
        yield
        self.add(stream, name, phase, start, self.clock(), payload)

    def add(
        self,
        stream: str,
        name: str,
        phase: Phase,
        start: Any,
        end: Any,
        payload: int = 0,
        step: int | None = None,
    ) -> None:
        """Record an interval between two marks of the clock, by default of the current step."""
        step = self.step if step is None else step
        self._spans.append(_Span(stream, name, phase, step, start, end, payload))

    def computed(self, phase: Phase, core_s: float) -> None:
        """Count seconds of a core to a phase of the current step."""
        of_step = self.core_s.setdefault(self.step, {})
        of_step[phase] = of_step.get(phase, 0.0) + core_s

    def disturbed(self, what: str, start_s: float, end_s: float) -> None:
        """Mark a fault of the host's link in every step that it touched."""
        for step in [span for span in self._spans if span.phase is Phase.STEP]:
            begin = max(start_s, self._seconds(step.start))
            end = min(end_s, self._seconds(step.end))
            if begin < end:
                self.add("faults", what, Phase.FAULT, begin, end, step=step.step)

    def timeline(self, rank: int, ranks: int) -> Timeline:
        """Everything recorded so far, as the measured timeline of one rank."""
        streams = {label: i for i, label in enumerate(dict.fromkeys(s.stream for s in self._spans))}
        names = {label: i for i, label in enumerate(dict.fromkeys(s.name for s in self._spans))}
        rows = [
            (
                rank,
                streams[span.stream],
                names[span.name],
                span.phase,
                span.step,
                self._seconds(span.start),
                self._seconds(span.end),
                span.bytes,
                0.0,
            )
            for span in self._spans
        ]
        return Timeline(
            source="measured",
            ranks=ranks,
            names=tuple(names),
            streams=tuple(streams),
            intervals=np.array(rows, dtype=INTERVAL),
            messages=np.empty(0, dtype=MESSAGE),
        )


@contextmanager
def computing(recorder: Recorder | None, name: str, phase: Phase) -> Iterator[None]:
    """Record the computing inside the ``with`` block; it lasts as long as the clock has it."""
    with recording(recorder, "compute", name, phase):
        clocks.COMPUTING.pass_over()
        before = clocks.COMPUTING.core_s
        yield
        clocks.COMPUTING.lap()
        if recorder:
            recorder.computed(phase, clocks.COMPUTING.core_s - before)


@contextmanager
def stepping(recorder: Recorder | None, name: str) -> Iterator[None]:
    """Record the step inside the ``with`` block."""
    with recording(recorder, "step", name, Phase.STEP):
        clocks.COMPUTING.begin()
        before = clocks.COMPUTING.core_s
        yield
        clocks.COMPUTING.pass_over()
        if recorder:
            recorder.computed(Phase.STEP, clocks.COMPUTING.core_s - before)


def recording(
    recorder: Recorder | None, stream: str, name: str, phase: Phase
) -> AbstractContextManager[None]:
    """Record what runs inside the ``with`` block, or nothing where there is no recorder."""
    return recorder.span(stream, name, phase) if recorder else nullcontext()
