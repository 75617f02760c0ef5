"""The page of a history: the figure over the revisions, a line for the runs that compare."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steptime.report.figures import Figure, axis, label, layout
from steptime.report.history_lines import short_revision, title, value_text
from steptime.report.palette import CURVES, DASHES, YELLOW
from steptime.report.template import write_html

# Okabe & Ito, as in the other figures, with their black in place of a yellow that paper swallows.
_COLORS = tuple("--ink" if color == YELLOW else color for color in CURVES)
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")
_MOST_TICKS = 16


def write_history(path: Path, run: Mapping[str, Any]) -> None:
    """Write the page of ``run``, the JSON of the verb, atomically: one file, no network."""
    write_html(path, "history.html", context(run))


def context(run: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    series = run["series"]
    return {
        "run": run,
        "words": _words(run),
        "keys": [
            (_css(_COLORS[at % len(_COLORS)]), _dash(at), title(s)) for at, s in enumerate(series)
        ],
        "figures": {"history": history_figure(run)},
        "tables": [
            (
                title(one),
                [
                    {
                        "time": point["time"],
                        "revision": point["git_revision"] or "–",
                        "value": value_text(point["value"], run["figure"]),
                        "run": point["run"],
                    }
                    for point in one["points"]
                ],
            )
            for one in series
        ],
        "command": shlex.join(run["environment"]["command"]),
    }


def history_figure(run: Mapping[str, Any]) -> Figure:
    """The value of every run over the runs in order of time, marked by their revisions."""
    seconds = run["figure"].endswith("_s") and "per" not in run["figure"]
    scale = 1e3 if seconds else 1.0
    points = [point for one in run["series"] for point in one["points"]]
    order = sorted({(point["time"], point["run"]) for point in points})
    place = {key: at for at, key in enumerate(order)}
    revision = {(p["time"], p["run"]): p["git_revision"] or "–" for p in points}
    data = [_trace(at, one, run["figure"], scale, place) for at, one in enumerate(run["series"])]
    marked = range(0, len(order), -(-max(1, len(order)) // _MOST_TICKS))
    unit = "ms" if seconds else "a second"
    return {
        "data": data,
        "layout": layout(
            420,
            hovermode="closest",
            xaxis=axis(
                "runs in order of time, by revision",
                tickvals=list(marked),
                ticktext=[label(short_revision(revision[order[at]])) for at in marked],
                showgrid=False,
            ),
            yaxis=axis(f"{_words(run)}, {unit}"),
        ),
    }


def _trace(
    at: int,
    series: Mapping[str, Any],
    figure: str,
    scale: float,
    place: Mapping[tuple[str, str], int],
) -> Figure:
    points = series["points"]
    color = _COLORS[at % len(_COLORS)]
    values = [scale * point["value"] for point in points]
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(title(series)),
        "x": [place[point["time"], point["run"]] for point in points],
        "y": [float(f"{value:.6g}") for value in values],
        "text": [
            f"<b>{value_text(point['value'], figure)}</b> {label(str(point['git_revision']))}<br>"
            f"{label(point['run'])}, {label(point['time'])}"
            for point in points
        ],
        "line": {"color": color, "dash": _dash(at), "width": 2.5},
        "marker": {"color": color, "symbol": _SYMBOLS[at % len(_SYMBOLS)], "size": 8},
        "hovertemplate": "%{text}<extra></extra>",
    }
    if all(point["p10"] is not None for point in points):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [scale * (point["p90"] - point["value"]) for point in points],
            "arrayminus": [scale * (point["value"] - point["p10"]) for point in points],
            "color": color,
            "thickness": 1.5,
            "width": 4,
        }
    return trace


def _words(run: Mapping[str, Any]) -> str:
    figure = str(run["figure"])
    return "tokens" if figure == "tokens_per_s" else figure.removesuffix("_s").replace("_", " ")


def _dash(at: int) -> str:
    return DASHES[at // len(_COLORS) % len(DASHES)]


def _css(color: str) -> str:
    return f"var({color})" if color.startswith("--") else color
