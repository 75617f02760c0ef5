"""Lines: at which line of the script the rank's time goes, looked at a hundred times a second."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained, caller
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.models import RUNS
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import Origin, origin

LINES = "lines"
"""What is noted of a rank's time between its steps: the lines on which most of it went."""

PREPARED = "prepared"
"""What is noted of the part of it that the script's own code took before the model's forward."""

_EVERY_S = 0.01
_MOST = 40
_DEEPEST = 30

_Line: TypeAlias = tuple[CodeType, int]
_Chain: TypeAlias = tuple[_Line, ...]


class Lines:
    """The time of the thread that trains, by the line in the loop around its steps.

    A line in the loop is one of the innermost function that is there both when it is looked at and
    when the optimizer steps: where the loop calls others, their own lines stand beside it. Time in
    which the thread wanted a core and had none counts for no line. What is neither in torch nor
    after the forward of a model under DDP or ``fully_shard`` is counted besides, as long as the
    thread runs: it prepares that.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._thread = threading.get_ident()
        self._stops = threading.Event()
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._latest: Counter[_Chain] = Counter()
        self._ran: Counter[tuple[_Chain, int]] = Counter()
        self._spent: Counter[tuple[_Line, _Line]] = Counter()
        self._prepared: dict[_Line, list[int]] = {}
        self._trained = 0
        self._forward_lines: set[_Line] = set()
        self._stepped = self._is_forward = False
        self._looker = threading.Thread(target=self._look, daemon=True, name="steptime-lines")
        self._looker.start()

    def stepping(self, *_: Any) -> None:
        """An optimizer steps: what was seen since the step before was between the two."""
        seen, self._latest = self._latest, Counter()
        ran, self._ran = self._ran, Counter()
        trains, self._is_forward = self._is_forward, False
        frame = caller()
        if frame is None or threading.get_ident() != self._thread:
            return
        began, self._stepped = self._stepped, True
        stepping = _chain(frame)
        for chain, spent in seen.items() if began else ():
            depth = _common(chain, stepping)
            if depth:
                self._spent[chain[depth - 1], chain[-1]] += spent
        if began and trains:
            self._see_prepared(ran, stepping)

    def _see_prepared(self, ran: Mapping[tuple[_Chain, int], int], stepping: _Chain) -> None:
        """Remember what each line of the loop took in a step before its forward."""
        self._trained += 1
        prepared: Counter[_Line] = Counter()
        for (chain, in_torch), spent in ran.items():
            depth = _common(chain, stepping)
            if depth > in_torch and self._forward_lines.isdisjoint(chain):
                prepared[chain[depth - 1]] += spent
        for line, spent in prepared.items():
            self._prepared.setdefault(line, []).append(spent)

    def begins(self, *_: Any) -> None:
        """A model that ranks have replicas or shards of begins a forward."""
        if torch.is_grad_enabled() and not self._is_forward:
            self._is_forward = True
            # What is seen at the line that calls the model may be what happens just behind it.
            self._forward_lines.update(_chain(caller())[-1:])

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
            usual = {
                line: sorted([*spent, *[0] * (self._trained - len(spent))])[self._trained // 2]
                for line, spent in self._prepared.items()
            }
            self._log.note(
                observed=PREPARED,
                lines=[[self._log.site(*line), spent] for line, spent in usual.items() if spent],
            )

    def _look(self) -> None:
        ran_before, lacked = self._ran_and_lacked_ns()
        runs_before = RUNS[0]
        before = time.perf_counter_ns() - lacked
        while not self._stops.wait(_EVERY_S):
            frame = sys._current_frames().get(self._thread)
            ran, lacked = self._ran_and_lacked_ns()
            now = time.perf_counter_ns() - lacked
            if chain := _chain(frame):
                # Who held the interpreter's lock until now was at that line, or just behind it.
                self._latest[chain] += now - before
                # Where modules ran meanwhile, as those of a policy, or calls, it is their time.
                if not self._is_forward and RUNS[0] == runs_before:
                    self._ran[chain, _callers_of_torch(frame)] += ran - ran_before
            before, ran_before, runs_before = now, ran, RUNS[0]
            del frame  # which has the tensors of its function, and would keep them

    def _ran_and_lacked_ns(self) -> tuple[int, int]:
        """How long the thread has run and waited for a core in all; 0 where the kernel says not."""
        with suppress(OSError):
            ran, lacked, _ = self._waits.read_text().split()
            return int(ran), int(lacked)
        return 0, 0


def _chain(frame: FrameType | None) -> _Chain:
    """The lines of the script that a frame is in, the outermost first."""
    found: list[_Line] = []
    while frame is not None and len(found) < _DEEPEST:
        if origin(frame.f_code) is Origin.SCRIPT:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _callers_of_torch(frame: FrameType | None) -> int:
    """How many of the script's functions, from the outermost on, wait for PyTorch to return."""
    callers, within = 0, False
    for _ in range(_DEEPEST):
        if frame is None:
            break
        of = origin(frame.f_code)
        within |= of is Origin.OURS
        callers += of is Origin.SCRIPT and within
        frame = frame.f_back
    return callers


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
    unwatch = watched_forwards(contained, lines.begins)
    hook = register_optimizer_step_pre_hook(contained.of(lines.stepping))
    end = contained.of(lines.end)

    def remove() -> None:
        hook.remove()
        unwatch()
        end()

    return remove


OBSERVER = Observer(_observe)
