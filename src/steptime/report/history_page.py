"""The page of a history: what became of a figure, a small chart for the runs that compare."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from steptime.report.figures import Figure, axis, label, layout, logarithmic
from steptime.report.history_lines import short_revision, title, value_text
from steptime.report.palette import BLUE
from steptime.report.template import write_html

_ALIKE = 0.02  # of a value: what differs by less is as good as unchanged
_MOST_TICKS = 6
_SHORT = 7  # letters of a revision below a point, as many as git shows


def write_history(path: Path, run: Mapping[str, Any]) -> None:
    """Write the page of ``run``, the JSON of the verb, atomically: one file, no network."""
    write_html(path, "history.html", context(run))


def context(run: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    series, figure = run["series"], run["figure"]
    return {
        "run": run,
        "headline": headline(run),
        "figures": {f"history-{at}": history_figure(run, at) for at in range(len(series))},
        "jobs": [
            (
                title(one),
                conclusion(one["points"], figure),
                [
                    {
                        "time": point["time"],
                        "revision": point["git_revision"] or "–",
                        "value": value_text(point["value"], figure),
                        "run": point["run"],
                    }
                    for point in one["points"]
                ],
            )
            for one in series
        ],
        "command": shlex.join(run["environment"]["command"]),
    }


def headline(run: Mapping[str, Any]) -> str:
    """What became of the figure: the largest last change of all jobs, or that there is none."""
    figure, series = run["figure"], run["series"]
    changes = [(one, last_change(one["points"])) for one in series]
    changed = [(abs(found.ratio - 1), one, found) for one, found in changes if found]
    words = _words(run).capitalize()
    if not series:
        return f"{words}: no run of {run['folder']} has it"
    if not changed:
        jobs = "the one job" if len(series) == 1 else f"all {len(series)} jobs"
        return f"{words}: unchanged in {jobs} of {run['folder']}"
    _, worst, found = max(changed, key=lambda one: one[0])
    others = f"; {len(changed)} of {len(series)} jobs changed" * (len(series) > 1)
    return (
        f"{words} of {worst['model']}, {worst['precision'] or worst['strategy']}: "
        f"{found.told(figure)}{others}"
    )


def conclusion(points: Sequence[Mapping[str, Any]], figure: str) -> str:
    """What became of one job: ``6 % slower from 33333333, unchanged since``."""
    if len(points) == 1:
        return "One run: nothing to compare it with."
    found = last_change(points)
    if found is None:
        return (
            f"Unchanged since {_named(points[0])}: no run is beyond the spread of the one before."
        )
    later = ", unchanged since" if found.point is not points[-1] else ""
    told = found.told(figure)
    return f"{told[0].upper()}{told[1:]}{later}; whether that is chance: steptime diff."


@dataclass(frozen=True)
class Change:
    """The run from which on a figure is another one, and how many times that before it."""

    point: Mapping[str, Any]
    ratio: float

    def told(self, figure: str) -> str:
        """``6 % slower from 33333333``."""
        more, less = ("faster", "slower") if "per" in figure else ("longer", "shorter")
        if figure == "step_time_s":
            more, less = "slower", "faster"
        word = more if self.ratio > 1 else less
        return f"{100 * abs(self.ratio - 1):.0f} % {word} from {_named(self.point)}"


def last_change(points: Sequence[Mapping[str, Any]]) -> Change | None:
    """The last run that differs from the one before it, None where none does.

    Two runs differ where their medians are 2 % apart and neither lies within the tenth to the
    ninetieth percentile of the other, as far as these are known.
    """
    for before, point in reversed(list(pairwise(points))):
        ratio = point["value"] / before["value"] if before["value"] else 1.0
        if abs(ratio - 1) > _ALIKE and not (_within(point, before) or _within(before, point)):
            return Change(point, ratio)
    return None


def _within(point: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return other["p10"] is not None and other["p10"] <= point["value"] <= other["p90"]


def _named(point: Mapping[str, Any]) -> str:
    """The run by its revision, or by its time where it has none."""
    return short_revision(point["git_revision"]) if point["git_revision"] else point["time"][:16]


def history_figure(run: Mapping[str, Any], at: int) -> Figure:
    """The value of the runs of one job in order of time, marked by their revisions."""
    series = run["series"][at]
    points = series["points"]
    seconds = run["figure"].endswith("_s") and "per" not in run["figure"]
    scale = 1e3 if seconds else 1.0
    marked = range(0, len(points), -(-len(points) // _MOST_TICKS))
    unit = "ms" if seconds else "a second"
    spread = [point[end] for point in points for end in ("p10", "value", "p90") if point[end]]
    values = [scale * value for value in spread]
    named = [short_revision(point["git_revision"])[:_SHORT] for point in points]
    return {
        "data": [_trace(series, run["figure"], scale)],
        "layout": layout(
            200,
            hovermode="closest",
            xaxis=axis(
                tickvals=list(marked),
                ticktext=[label(named[place]) for place in marked],
                tickangle=0,
                showgrid=False,
            ),
            yaxis=logarithmic(unit, values) if values and min(values) > 0 else axis(unit),
        ),
    }


def _trace(series: Mapping[str, Any], figure: str, scale: float) -> Figure:
    points = series["points"]
    values = [scale * point["value"] for point in points]
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(title(series)),
        "x": list(range(len(points))),
        "y": [float(f"{value:.6g}") for value in values],
        "text": [
            f"<b>{value_text(point['value'], figure)}</b> {label(str(point['git_revision']))}<br>"
            f"{label(point['run'])}, {label(point['time'])}"
            for point in points
        ],
        "line": {"color": BLUE, "width": 2.5},
        "marker": {"color": BLUE, "size": 8},
        "hovertemplate": "%{text}<extra></extra>",
    }
    if all(point["p10"] is not None for point in points):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [scale * (point["p90"] - point["value"]) for point in points],
            "arrayminus": [scale * (point["value"] - point["p10"]) for point in points],
            "color": BLUE,
            "thickness": 1.5,
            "width": 4,
        }
    return trace


def _words(run: Mapping[str, Any]) -> str:
    figure = str(run["figure"])
    return "tokens" if figure == "tokens_per_s" else figure.removesuffix("_s").replace("_", " ")
