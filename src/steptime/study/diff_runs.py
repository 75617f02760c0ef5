"""The runs that a diff compares: the times of their steps, and what they did."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.record.traces.opening import may_be_trace
from steptime.runs import run_folder
from steptime.runs.host_links import HostLink
from steptime.runs.record import RunRecord, run_record, took_steps
from steptime.runs.same_work import Facts, facts_of
from steptime.study.traced import read_trace
from steptime.timeline import EXPOSED, Timeline, phases_of_steps, read_chrome_trace

PHASES = ("compute", "exposed_comm", "update", "other")
"""What a step is divided into: these add up to it."""

COLUMNS = (*PHASES, *EXPOSED)
"""With the parts of exposed communication, which add up to that."""


@dataclass(frozen=True)
class TimedRun:
    """The timed steps of a run: ``step_s`` of shape (steps,), each as long as its slowest rank.

    ``phases`` of shape (kept, 8) divide the steps that the trace kept, in the order of COLUMNS:
    none where it kept no step, NaN where nothing tells a part. ``time``: when it was run.
    ``host_links``: what was sent from host to host, where that was counted.
    """

    path: Path
    source: str
    step_s: Floats
    phases: Floats
    facts: Facts
    time: str
    host_links: Sequence[HostLink] = ()

    @property
    def median(self) -> float:
        """The median step, in seconds."""
        return float(np.median(self.step_s))

    @property
    def phase_s(self) -> Floats:
        """How the phases divide the median step, shape (8,), as they divide the kept steps."""
        whole = self.phases[:, : len(PHASES)].sum()
        return np.asarray(self.median * self.phases.sum(axis=0) / whole)


def read_side(text: str, strategy: str | None) -> list[TimedRun]:
    """The runs of a side: a run's folder, a folder of runs, or several with commas between them.

    ``strategy``: which of several that ran. Raises UsageError where there is no run, one has no
    steps or cannot be read, or nothing says which strategy is meant.
    """
    return [run for part in text.split(",") for run in read_runs(Path(part.strip()), strategy)]


def read_runs(path: Path, strategy: str | None) -> list[TimedRun]:
    """The run of a folder, or those of a folder of runs; raises UsageError as ``read_side``."""
    return [read_run(folder, strategy) for folder in _folders(path)]


def _folders(path: Path) -> list[Path]:
    if (path / run_folder.RECORD).exists() or not path.is_dir():
        return [path]
    return sorted(one.parent for one in path.glob(f"*/{run_folder.RECORD}")) or [path]


def read_run(folder: Path, strategy: str | None) -> TimedRun:
    """One run, or the trace that other tools wrote of one; raises UsageError as ``read_side``."""
    if may_be_trace(folder):
        return timed_run(folder, *read_trace([folder]), strategy)
    raw = run_folder.read_record(folder)
    if not took_steps(raw):
        raise UsageError(
            f"{folder} is a run of {raw['verb']}, which times no steps that could be compared: "
            "give runs of train, compare, simulate or proxy"
        )
    return timed_run(folder, run_record(raw, str(folder)), None, strategy)


def timed_run(
    folder: Path, record: RunRecord, timeline: Timeline | None, strategy: str | None
) -> TimedRun:
    """The steps of one run; raises UsageError as ``read_side``.

    ``timeline``: that of the run, None for the one that its ``folder`` holds, which is otherwise
    no more than what the run is called.
    """
    if record.work.program and strategy is not None:
        raise UsageError(f"{folder} ran a proxy, which has no strategies: leave out --strategy")
    name = _chosen(folder, record.strategies, strategy)
    source = record.strategies[name].source
    step_s, phases = _timed(folder, record, timeline, name)
    if not step_s.size:
        raise UsageError(f"{folder} has no timed steps: run it with more --steps")
    if not (np.isfinite(step_s).all() and step_s.min() > 0):
        raise UsageError(f"{folder} has steps of no length, which have no ratio: run it again")
    facts = facts_of(record, name)
    time = record.environment.time
    return TimedRun(folder, source, step_s, phases, facts, time, record.host_links)


def _timed(
    folder: Path, record: RunRecord, timeline: Timeline | None, name: str
) -> tuple[Floats, Floats]:
    """Seconds of each timed step, shape (steps,), and the phases of those kept, (kept, 8).

    A simulated step is one, and exact; of a proxy's steps the timeline keeps the last.
    """
    figures = record.strategies[name]
    if figures.source == "simulated":
        parts = [getattr(figures, f"{phase}_s") for phase in COLUMNS]
        return np.array([figures.step_time_s.median]), np.array([parts], np.float64)  # None: NaN
    timeline = timeline or read_chrome_trace(folder / run_folder.TRACE)
    if record.proxy_step:
        _, phases = _steps(timeline, record.step_name(name), 0)
        return np.array(record.proxy_step.steps_s, np.float64), phases
    return _steps(timeline, name, record.timing.warmup or 0)


def _chosen(folder: Path, strategies: Iterable[str], asked: str | None) -> str:
    known = list(strategies)
    names = ", ".join(known)
    if asked is None and len(known) == 1:
        return known[0]
    if asked is None:
        raise UsageError(f"{folder} has several strategies: choose one of {names} by --strategy")
    if asked not in known:
        raise UsageError(f"{folder} has no strategy {asked!r}: it has {names}")
    return asked


def _steps(timeline: Timeline, name: str, warmup: int) -> tuple[Floats, Floats]:
    """Seconds of each timed step, shape (steps,), and of its phases, shape (steps, 8).

    The phases of a step are divided as those of all its ranks together.
    """
    rows = phases_of_steps(timeline, name)
    numbers = np.unique(rows["step"])
    numbers = numbers[min(warmup, max(0, len(numbers) - 1)) :]
    rows = rows[np.isin(rows["step"], numbers)]
    place = np.searchsorted(numbers, rows["step"])
    slowest, whole = np.zeros(len(numbers)), np.zeros(len(numbers))
    np.maximum.at(slowest, place, rows["duration"])
    np.add.at(whole, place, rows["duration"])
    phases = np.zeros((len(numbers), len(COLUMNS)))
    for column, phase in enumerate(COLUMNS):
        np.add.at(phases[:, column], place, rows[phase])
    whole[whole == 0] = 1.0
    return slowest, phases * (slowest / whole)[:, None]
