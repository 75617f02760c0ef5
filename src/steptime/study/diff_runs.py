"""The runs that a diff compares: the times of their steps, and whether they did the same work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.timeline import Timeline, phases_of_steps, read_chrome_trace

PHASES = ("compute", "exposed_comm", "update", "other")
_TRACE = "trace.json.gz"
_SAME = {
    "verb": "",
    "source": "",
    "model": "",
    "precision": "",
    "ranks": "",
    "batch": "a batch of ",
    "accumulate": "micro-batches: ",
    "model_config": "",
    "axes": "axes ",
    "scale_bytes": "bytes scaled by ",
    "cluster": "cluster ",
}
"""What must be the same for two step times to be of the same work, and how it is called."""

_TOLD = ("strategy", "backend", "threads", "compiled", "reduce_dtype", "host", "cpu", "torch")
"""What may differ, since it may be what is compared, and is told."""


@dataclass(frozen=True)
class Run:
    """The timed steps of a run: ``step_s`` of shape (steps,), each as long as its slowest rank.

    ``phases`` of shape (kept, 4) divide the steps that the trace kept, in the order of PHASES; none
    of them where it kept no step. ``facts``: what it ran, where.
    """

    path: Path
    source: str
    step_s: Floats
    phases: Floats
    facts: Mapping[str, Any]

    @property
    def median(self) -> float:
        """The median step, in seconds."""
        return float(np.median(self.step_s))

    @property
    def phase_s(self) -> Floats:
        """How the phases divide the median step, shape (4,), as they divide the kept steps."""
        return np.asarray(self.median * self.phases.sum(axis=0) / self.phases.sum())


def read_side(text: str, strategy: str | None) -> list[Run]:
    """The runs of a side: a run's folder, a folder of runs, or several with commas between them.

    ``strategy``: which of several that ran. Raises UsageError where there is no run, one has no
    steps or cannot be read, or nothing says which strategy is meant.
    """
    found = [run for part in text.split(",") for run in _folders(Path(part.strip()))]
    return [read_run(folder, strategy) for folder in found]


def _folders(path: Path) -> list[Path]:
    if (path / run_folder.RECORD).exists() or not path.is_dir():
        return [path]
    return sorted(one.parent for one in path.glob(f"*/{run_folder.RECORD}")) or [path]


def read_run(folder: Path, strategy: str | None) -> Run:
    """One run; raises UsageError as ``read_side`` does."""
    record = run_folder.read_record(folder)
    if "steps_s" in record:
        if strategy is not None:
            raise UsageError(f"{folder} ran a proxy, which has no strategies: leave out --strategy")
        return _proxy(folder, record)
    if not isinstance(record.get("strategies"), Mapping):
        raise UsageError(
            f"{folder} is a run of {record['verb']}, which times no steps that could be compared: "
            "give runs of train, compare, simulate or proxy"
        )
    name = _chosen(folder, record["strategies"], strategy)
    entry = record["strategies"][name]
    facts = _facts(record, entry) | {"strategy": name}
    if entry["source"] == "simulated":
        step = np.array([entry["step_time_s"]["median"]])
        phases = np.array([[entry[f"{phase}_s"] for phase in PHASES]])
        return _checked(Run(folder, "simulated", step, phases, facts))
    timeline = read_chrome_trace(folder / _TRACE)
    steps, phases = _steps(timeline, name, int(record.get("warmup", 0)))
    return _checked(Run(folder, entry["source"], steps, phases, facts))


def _proxy(folder: Path, record: Mapping[str, Any]) -> Run:
    step_s = np.array(record["steps_s"], dtype=np.float64)
    timeline = read_chrome_trace(folder / _TRACE)
    _, phases = _steps(timeline, record["program"], 0)
    if record["source"] == "simulated":
        step_s, phases = np.array([record["step_time_s"]["median"]]), phases[-1:]
    return _checked(Run(folder, record["source"], step_s, phases, _facts(record, record)))


def _chosen(folder: Path, strategies: Mapping[str, Any], asked: str | None) -> str:
    names = ", ".join(strategies)
    if asked is None and len(strategies) == 1:
        return next(iter(strategies))
    if asked is None:
        raise UsageError(f"{folder} has several strategies: choose one of {names} by --strategy")
    if asked not in strategies:
        raise UsageError(f"{folder} has no strategy {asked!r}: it has {names}")
    return asked


def _steps(timeline: Timeline, name: str, warmup: int) -> tuple[Floats, Floats]:
    """Seconds of each timed step, shape (steps,), and of its phases, shape (steps, 4).

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
    phases = np.zeros((len(numbers), len(PHASES)))
    for column, phase in enumerate(PHASES):
        np.add.at(phases[:, column], place, rows[phase])
    whole[whole == 0] = 1.0
    return slowest, phases * (slowest / whole)[:, None]


def _facts(record: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    about = record.get("environment", {})
    return {field: record.get(field) for field in (*_SAME, *_TOLD)} | {
        "source": entry["source"],
        "ranks": record.get("world_size", record.get("ranks")),
        "host": about.get("host"),
        "cpu": about.get("cpu"),
        "torch": about.get("versions", {}).get("torch"),
        "git_revision": about.get("git_revision"),
        "time": about.get("time"),
    }


def _checked(run: Run) -> Run:
    if not run.step_s.size:
        raise UsageError(f"{run.path} has no timed steps: run it with more --steps")
    if not (np.isfinite(run.step_s).all() and run.step_s.min() > 0):
        raise UsageError(f"{run.path} has steps of no length, which have no ratio: run it again")
    return run


def check_comparable(runs: Sequence[Run]) -> None:
    """Raise UsageError, naming the difference, where two of ``runs`` did not do the same work."""
    first = runs[0]
    for run in runs[1:]:
        for field, word in _SAME.items():
            one, other = first.facts[field], run.facts[field]
            if one != other:
                raise UsageError(
                    f"{first.path} and {run.path} cannot be compared: {_said(field, word, one)} "
                    f"and {_said(field, word, other)}; give runs that differ in what you ask about"
                )


def _said(field: str, word: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return word + ", ".join(f"{name} {one}" for name, one in value.items())
    if field == "ranks":
        return f"{value} rank{'s' * (value != 1)}"
    return f"{word}{'nothing said' if value is None else value}"


def told_differences(a: Sequence[Run], b: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """What differs between the sides and may be the reason, as ``what``, ``a`` and ``b``."""
    for field in (*_TOLD, "git_revision"):
        sides = [", ".join(sorted({str(run.facts[field]) for run in side})) for side in (a, b)]
        if sides[0] != sides[1]:
            yield {"what": field.replace("_", " "), "a": sides[0], "b": sides[1]}
