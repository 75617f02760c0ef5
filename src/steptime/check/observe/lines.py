"""Lines: at which line of the script the rank's time goes, looked at a hundred times a second."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained, caller
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import Origin, origin

LINES = "lines"
"""What is noted of a rank's time between its steps: the lines on which most of it went."""

_EVERY_S = 0.01
_MOST = 40
_DEEPEST = 30

_Line: TypeAlias = tuple[CodeType, int]
_Chain: TypeAlias = tuple[_Line, ...]


class Lines:
    """The time of the thread that trains, by the line in the loop around its steps.

    A line in the loop is one of the innermost function that is there both when it is looked at and
    when the optimizer steps: where the loop calls others, their own lines stand beside it. Time in
    which the thread wanted a core and had none counts for no line.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._thread = threading.get_ident()
        self._stops = threading.Event()
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._latest: Counter[_Chain] = Counter()
        self._spent: Counter[tuple[_Line, _Line]] = Counter()
        self._stepped = False
        self._looker = threading.Thread(target=self._look, daemon=True, name="steptime-lines")
        self._looker.start()

    def stepping(self, *_: Any) -> None:
        """An optimizer steps: what was seen since the step before was between the two."""
        seen, self._latest = self._latest, Counter()
        frame = caller()
        if frame is None or threading.get_ident() != self._thread:
            return
        began, self._stepped = self._stepped, True
        stepping = _chain(frame)
        for chain, spent in seen.items() if began else ():
            depth = _common(chain, stepping)
            if depth:
                self._spent[chain[depth - 1], chain[-1]] += spent

    def end(self) -> None:
        """Look no more, and note what was seen."""
        self._stops.set()
        self._looker.join()
        if self._spent:
            self._log.note(
                observed=LINES,
                lines=[
                    [self._log.site(*line), self._log.site(*inner), spent]
                    for (line, inner), spent in self._spent.most_common(_MOST)
                ],
            )

    def _look(self) -> None:
        before = time.perf_counter_ns() - self._lacked_ns()
        while not self._stops.wait(_EVERY_S):
            frame = sys._current_frames().get(self._thread)
            now = time.perf_counter_ns() - self._lacked_ns()
            if chain := _chain(frame):
                # Who held the interpreter's lock until now was at that line, or just behind it.
                self._latest[chain] += now - before
            before = now

    def _lacked_ns(self) -> int:
        """How long the thread has waited for a core in all; 0 where the kernel does not say."""
        with suppress(OSError):
            return int(self._waits.read_text().split()[1])
        return 0


def _chain(frame: FrameType | None) -> _Chain:
    """The lines of the script that a frame is in, the outermost first."""
    found: list[_Line] = []
    while frame is not None and len(found) < _DEEPEST:
        if origin(frame.f_code) is Origin.SCRIPT:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _common(one: _Chain, other: _Chain) -> int:
    """In how many functions, from the outermost on, both are."""
    depth = 0
    for (code, _), (its, _) in zip(one, other, strict=False):
        if code is not its:
            break
        depth += 1
    return depth


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained = Contained("lines")
    lines = Lines(log)
    hook = register_optimizer_step_pre_hook(contained.of(lines.stepping))
    end = contained.of(lines.end)

    def remove() -> None:
        hook.remove()
        end()

    return remove


OBSERVER = Observer(_observe)
