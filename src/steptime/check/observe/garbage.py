"""Garbage: when Python looks for objects that nothing refers to, and for how long."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import is_ours

GARBAGE = "garbage"
"""What is noted of a collection by the main thread that took a millisecond or more."""

_LEAST_NS = 1_000_000
_MOST = 2000


class _Collection(NamedTuple):
    begin_ns: int
    end_ns: int
    code: CodeType
    line: int


class Garbage:
    """The collections of a process.

    They are written down when an optimizer steps: one may begin at any moment, also while something
    is being written to the log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._process = os.getpid()  # a DataLoader's worker has its own
        self._begin_ns = self._seen = 0
        self._found: list[_Collection] = []

    def collects(self, phase: str, _: dict[str, int]) -> None:
        """A collection begins, or is over, as gc.callbacks are told."""
        now = time.perf_counter_ns()
        if phase == "start":
            self._begin_ns = now
        elif now - self._begin_ns >= _LEAST_NS and self._seen < _MOST:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and is_ours(frame):
                frame = frame.f_back
            if frame is not None and threading.current_thread() is threading.main_thread():
                self._seen += 1
                self._found.append(_Collection(self._begin_ns, now, frame.f_code, frame.f_lineno))

    def write(self, *_: Any) -> None:
        """Note what has been found since the last time."""
        found, self._found = self._found, []
        for one in found if os.getpid() == self._process else ():
            at = self._log.site(one.code, one.line)
            self._log.note(observed=GARBAGE, begin_ns=one.begin_ns, end_ns=one.end_ns, at=at)


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    garbage = Garbage(log)
    gc.callbacks.append(garbage.collects)
    stepping = register_optimizer_step_pre_hook(garbage.write)

    def remove() -> None:
        gc.callbacks.remove(garbage.collects)
        stepping.remove()
        garbage.write()

    return remove


OBSERVER = Observer(_observe)
