"""The runs of a folder by revision and time, and one figure of each that can be compared."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.runs.figures import PARTS, Spread
from steptime.runs.record import RunRecord, run_record, took_steps
from steptime.runs.same_work import differing, facts_of
from steptime.units import Size

FIGURES = ("step_time_s", "tokens_per_s", *PARTS)
_TITLE = (
    "verb",
    "model",
    "strategy",
    "ranks",
    "threads",
    "precision",
    "batch",
    "backend",
    "source",
    "machine",
)
_LONGEST = 60  # characters of what tells a series from another
_LEFT_BEHIND = (run_folder.TRACE, "report.html")
"""What tells the folder of a run that lost its record."""


@dataclass(frozen=True)
class Point:
    """The figure of a run: its value and, where it was timed step by step, its deciles."""

    run: str
    time: str
    git_revision: str | None
    value: float
    p10: float | None
    p90: float | None


@dataclass(frozen=True, kw_only=True)
class Series:
    """Runs in order of time that did the same work in the same place.

    The fields say what that is; ``apart``: those that tell it from another series of which they
    all say the same.
    """

    verb: str
    model: str
    strategy: str
    ranks: str
    threads: str
    precision: str
    batch: str
    backend: str
    source: str
    machine: str
    apart: Mapping[str, str]
    points: Sequence[Point]


@dataclass(frozen=True)
class History:
    """What became of a figure, series by series.

    ``without``: runs that have no such figure, with their verb; ``damaged``: with what is wrong.
    """

    folder: Path
    figure: str
    series: Sequence[Series]
    without: Sequence[tuple[str, str]]
    damaged: Sequence[tuple[str, str]]

    def record(self) -> dict[str, Any]:
        """What is printed as JSON."""
        return {
            "verb": "history",
            "folder": str(self.folder),
            "figure": self.figure,
            "series": [asdict(series) for series in self.series],
            "without": [{"run": run, "verb": verb} for run, verb in self.without],
            "damaged": [{"run": run, "why": why} for run, why in self.damaged],
        }


@dataclass(frozen=True)
class _Sample:
    """A point with what it is of: the fields that name its series, and all of its work."""

    title: tuple[str, ...]
    work: Mapping[str, Any]
    point: Point


def history(folder: Path, figure: str = "step_time_s") -> History:
    """Read the runs below ``folder``; folders that are no run are looked into.

    Raises UsageError where there is no such folder or figure, or no run in it.
    """
    if figure not in FIGURES:
        raise UsageError(f"--figure is {figure!r}: choose one of {', '.join(FIGURES)}")
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: give the one that holds your runs")
    samples: list[_Sample] = []
    without, damaged = [], []
    for run in _runs(folder):
        name = str(run.relative_to(folder)) if run != folder else str(run)
        try:
            raw = run_folder.read_record(run)
            found = list(_samples(name, run_record(raw, name), figure)) if took_steps(raw) else []
        except UsageError as error:
            damaged.append((name, str(error)))
            continue
        if not found:
            without.append((name, str(raw["verb"])))
        samples += found
    if not (samples or without or damaged):
        raise UsageError(f"{folder} holds no runs: run one, or give another folder")
    return History(folder, figure, _series(samples), without, damaged)


def _series(samples: Sequence[_Sample]) -> list[Series]:
    """The samples that did the same work together, the series that began first in front."""
    ordered = sorted(samples, key=lambda sample: sample.point.time)
    works: dict[tuple[str, ...], dict[str, list[_Sample]]] = {}
    for sample in ordered:
        of_title = works.setdefault(sample.title, {})
        of_title.setdefault(json.dumps(sample.work, sort_keys=True), []).append(sample)
    found = []
    for title, of_title in works.items():
        apart = differing([same[0].work for same in of_title.values()])
        for same in of_title.values():
            values = {name: _short(name, same[0].work.get(name, "not said")) for name in apart}
            points = [sample.point for sample in same]
            fields = dict(zip(_TITLE, title, strict=True))
            found.append(Series(**fields, apart=values, points=points))
    return sorted(found, key=lambda series: series.points[0].time)


def _short(name: str, value: Any) -> str:
    text = str(Size(value)) if name == "bucket" and isinstance(value, int) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _runs(folder: Path) -> Iterator[Path]:
    """The folders of runs, whole or damaged; what lies within a run is its own."""
    if (folder / run_folder.RECORD).exists() or any((folder / f).exists() for f in _LEFT_BEHIND):
        yield folder
        return
    for below in sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()):
        yield from _runs(below)


def _samples(name: str, record: RunRecord, figure: str) -> Iterator[_Sample]:
    about, place = record.environment, record.place
    for strategy, entry in record.strategies.items():
        found = getattr(entry, figure)
        if found is None:
            continue
        simulated = entry.source == "simulated"
        spread = found if isinstance(found, Spread) and not simulated else None
        facts = facts_of(record, strategy)
        title = (
            record.verb,
            record.work.model,
            "" if record.work.program else strategy,
            place.world_size,
            place.threads,
            facts.work.get("precision"),
            facts.work.get("batch"),
            place.backend,
            entry.source,
            place.cluster if simulated else f"{about.cpu}, {about.cores} cores",
        )
        # Nobody knows whether a run that does not say what it did did what another one did.
        unknown = {} if facts.known else {"run": name}
        yield _Sample(
            tuple("" if one is None else str(one) for one in title),
            {**facts.work, **unknown},
            Point(
                run=name,
                time=about.time,
                git_revision=about.git_revision,
                value=found.median if isinstance(found, Spread) else float(found),
                p10=spread.p10 if spread else None,
                p90=spread.p90 if spread else None,
            ),
        )
