"""The runs of a folder by revision and time, and one figure of each that can be compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.runs import run_folder

FIGURES = ("step_time_s", "tokens_per_s", "compute_s", "exposed_comm_s", "update_s", "other_s")
_LEFT_BEHIND = ("trace.json.gz", "report.html")
"""What tells the folder of a run that lost its record."""

Series = tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """The figure of a run: its value and, where it was timed step by step, its deciles."""

    run: str
    time: str
    revision: str | None
    value: float
    p10: float | None
    p90: float | None


@dataclass(frozen=True)
class History:
    """Points in order of time by series, each of runs that did the same work in the same place.

    ``without``: runs that have no such figure, with their verb; ``damaged``: with what is wrong.
    """

    folder: Path
    figure: str
    series: Mapping[Series, tuple[Point, ...]]
    without: tuple[tuple[str, str], ...]
    damaged: tuple[tuple[str, str], ...]

    def record(self) -> dict[str, Any]:
        """What is printed as JSON."""
        return {
            "verb": "history",
            "folder": str(self.folder),
            "figure": self.figure,
            "series": [
                {
                    **dict(zip(_FIELDS, series, strict=True)),
                    "points": [
                        {
                            "run": point.run,
                            "time": point.time,
                            "git_revision": point.revision,
                            "value": point.value,
                            "p10": point.p10,
                            "p90": point.p90,
                        }
                        for point in points
                    ],
                }
                for series, points in self.series.items()
            ],
            "without": [{"run": run, "verb": verb} for run, verb in self.without],
            "damaged": [{"run": run, "why": why} for run, why in self.damaged],
        }


_FIELDS = (
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
"""What must be the same for the points of a series to be joined."""


def history(folder: Path, figure: str = "step_time_s") -> History:
    """Read the runs below ``folder``; folders that are no run are looked into.

    Raises UsageError where there is no such folder or figure, or no run in it.
    """
    if figure not in FIGURES:
        raise UsageError(f"--figure is {figure!r}: choose one of {', '.join(FIGURES)}")
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: give the one that holds your runs")
    found: dict[Series, list[Point]] = {}
    without, damaged = [], []
    for run in _runs(folder):
        name = str(run.relative_to(folder)) if run != folder else str(run)
        try:
            record = run_folder.read_record(run)
            points = list(_points(name, record, figure))
        except UsageError as error:
            damaged.append((name, str(error)))
            continue
        except (KeyError, TypeError, ValueError, AttributeError):
            damaged.append((name, f"{run / run_folder.RECORD} lacks what a run of its verb has"))
            continue
        if not points:
            without.append((name, str(record["verb"])))
        for series, point in points:
            found.setdefault(series, []).append(point)
    if not (found or without or damaged):
        raise UsageError(f"{folder} holds no runs: run one, or give another folder")
    ordered = sorted(found.items(), key=lambda item: min(p.time for p in item[1]))
    return History(
        folder,
        figure,
        {series: tuple(sorted(points, key=lambda p: p.time)) for series, points in ordered},
        tuple(without),
        tuple(damaged),
    )


def _runs(folder: Path) -> Iterator[Path]:
    """The folders of runs, whole or damaged; what lies within a run is its own."""
    if (folder / run_folder.RECORD).exists() or any((folder / f).exists() for f in _LEFT_BEHIND):
        yield folder
        return
    for below in sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()):
        yield from _runs(below)


def _points(name: str, record: Mapping[str, Any], figure: str) -> Iterator[tuple[Series, Point]]:
    strategies = record.get("strategies")
    entries = dict(strategies) if isinstance(strategies, Mapping) else {}
    if not entries and "steps_s" in record:
        entries = {"": record}
    about = record["environment"]
    for strategy, entry in entries.items():
        found = entry.get(figure)
        if found is None:
            continue
        spread = found if isinstance(found, Mapping) else {"median": found}
        simulated = entry["source"] == "simulated"
        where = record.get("cluster") if simulated else f"{about['cpu']}, {about['cores']} cores"
        facts = {
            **record,
            "strategy": strategy,
            "ranks": record.get("world_size", record.get("ranks")),
            "source": entry["source"],
            "machine": where,
        }
        series = tuple("" if facts.get(f) is None else str(facts[f]) for f in _FIELDS)
        exact = simulated or "p10" not in spread
        yield (
            series,
            Point(
                run=name,
                time=str(about["time"]),
                revision=about["git_revision"],
                value=float(spread["median"]),
                p10=None if exact else float(spread["p10"]),
                p90=None if exact else float(spread["p90"]),
            ),
        )
