"""torch.profiler for some steps of a recorded script: its operators, and its kernels on a GPU.

It starts and ends where steps end, and writes what it saw into a third file beside the events, on
the clock that those have: operators of ours, named after their moments, tell one from the other.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from steptime.errors import UsageError
from steptime.record.events import Log

_MARK = "steptime mark "
_MARKS = 20
"""Between naming a moment and marking it the process may be made to wait: hardly so often."""


@dataclass(frozen=True)
class ProfiledSteps:
    """The steps from ``first`` up to, but without, ``last``, counted from 0."""

    first: int
    last: int

    @staticmethod
    def parse(text: str) -> "ProfiledSteps":
        """``"3:5"``: steps 3 and 4. Raises UsageError for anything else."""
        first, colon, last = text.partition(":")
        if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
            raise UsageError(
                f"--profile is {text!r}: give the steps as FIRST:LAST, as in 3:5 for steps 3 and 4"
            )
        return ProfiledSteps(int(first), int(last))


def at_end_of_steps(log: Log, steps: ProfiledSteps) -> Callable[[], None]:
    """What is to be called at the end of every step, as the recording counts them.

    The first end of all begins step 0.
    """
    ends = -1
    running: list[Any] = []

    def step_ended() -> None:
        nonlocal ends
        ends += 1
        if ends == steps.first:
            running.append(torch.profiler.profile())
            running[0].start()
            for _ in range(_MARKS):
                with torch.profiler.record_function(f"{_MARK}{time.perf_counter_ns()}"):
                    pass
        elif ends == steps.last and running:
            profiler = running.pop()
            profiler.stop()
            _write(log, profiler.events())

    return step_ended


def _write(log: Log, events: Any) -> None:
    """Write the outermost operators and all kernels, in nanoseconds of the log's clock."""
    marks = [event for event in events if event.name.startswith(_MARK)]
    # Each is later than its name says; the one that is so the least tells best.
    zero = max(
        int(mark.name.removeprefix(_MARK)) - round(1e3 * mark.time_range.start) for mark in marks
    )
    names: dict[str, int] = {}
    rows = [
        (
            names.setdefault(event.name, len(names)),
            event.device_type.name != "CPU",
            zero + round(1e3 * event.time_range.start),
            zero + round(1e3 * event.time_range.end),
        )
        for event in events
        if not event.name.startswith(_MARK) and event.cpu_parent is None
    ]
    log.operators_file.write_text(json.dumps({"names": list(names), "rows": rows}))
