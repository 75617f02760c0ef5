"""The page of a chart: time against size, one curve an algorithm, with the crossovers marked."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.crossover import rounded
from steptime.report.crossover import (
    SHOWN_SIZES,
    Chart,
    cells,
    choice_rows,
    end_of,
    half,
    title,
)
from steptime.report.figures import Figure, axis, label, layout
from steptime.report.palette import CURVES, DASHES, YELLOW
from steptime.report.template import write_html
from steptime.units import Size, format_seconds

# Okabe & Ito, as in the other figures, with their black in place of a yellow that paper swallows.
_COLORS = tuple("--ink" if color == YELLOW else color for color in CURVES)
_DECADES = range(-9, 5)
_MOST_TIMES = 8
_NEAR = 0.45  # decades


def write_chart(path: Path, drawn: Chart) -> None:
    """Write the page of a chart, atomically: one HTML file that needs no network."""
    of_name = cells(drawn)
    rows = [
        (
            f"var({color})" if color.startswith("--") else color,
            "" if dash == "solid" else dash,
            name,
            of_name[name],
            half(drawn.curves[name], drawn.sizes),
        )
        for name, color, dash in _drawn_as(drawn)
    ]
    context = {
        "title": title(drawn),
        "headline": _headline(drawn),
        "drawn": drawn,
        "sizes": [str(Size(size)) for size in SHOWN_SIZES],
        "rows": rows,
        "choices": choice_rows(drawn),
        "figures": {"times": chart_figure(drawn), "ratios": ratio_figure(drawn)},
    }
    write_html(path, "crossover.html", context)


def _headline(drawn: Chart) -> str:
    """Who is the fastest from where on: ``bruck up to 312KiB, direct above``."""
    choices = drawn.selection.choices
    if len(choices) == 1:
        return f"{title(drawn)}: {choices[0].algorithm} is the fastest at every size"
    *lower, last = choices
    parts = [f"{choice.algorithm} up to {end_of(choice)}" for choice in lower]
    return f"{title(drawn)}: {', '.join(parts)}, {last.algorithm} above"


def _drawn_as(drawn: Chart) -> list[tuple[str, str, str]]:
    """The name, colour and dashes of each curve."""
    return [
        (name, color, dash)
        for name, color, dash in zip(drawn.curves, _COLORS, DASHES, strict=False)
    ]


def chart_figure(drawn: Chart) -> Figure:
    """The curves on logarithmic axes, the fastest underlaid, crossovers and halves marked."""
    seconds = np.stack([one.seconds for one in drawn.curves.values()])
    low, high = float(seconds.min()) / 3, float(seconds.max()) * 1.5
    decades = [10.0**power for power in _DECADES if low <= 10.0**power <= high]
    times = {name: one.seconds for name, one in drawn.curves.items()}
    curves = _curve_lines(drawn, times, format_seconds)
    return {
        "data": [*_fastest_lines(drawn), *curves, _halves(drawn)],
        "layout": _layout(
            drawn,
            axis(
                "time",
                type="log",
                range=[float(np.log10(low)), float(np.log10(high))],
                tickvals=decades,
                ticktext=[_decade(decade) for decade in decades],
            ),
            540,
        )
        | {
            "annotations": [
                *_marks(drawn.crossovers),
                _side("← latency-bound", 0.01, "left"),
                _side("bandwidth-bound →", 0.99, "right"),
            ]
        },
    }


def ratio_figure(drawn: Chart) -> Figure:
    """How many times the fastest each algorithm takes, from 1 to a few."""
    least = np.stack([one.seconds for one in drawn.curves.values()]).min(axis=0)
    ratios = {name: one.seconds / least for name, one in drawn.curves.items()}
    times = [1, 1.5, 2, 3, 4, 6, 8]
    return {
        "data": _curve_lines(drawn, ratios, lambda ratio: f"{ratio:.2f}×"),
        "layout": _layout(
            drawn,
            axis(
                "times the fastest",
                type="log",
                range=[-0.015, float(np.log10(_MOST_TIMES))],
                tickvals=times,
                ticktext=[f"{time:g}×" for time in times],
            ),
            340,
        ),
    }


def _layout(drawn: Chart, yaxis: Figure, height: int) -> Figure:
    powers = range(10, 31, 4)
    ends = float(np.log10(drawn.sizes[0])), float(np.log10(drawn.sizes[-1])) + 0.02
    return layout(
        height,
        hovermode="x unified",
        margin={"l": 8, "r": 26, "t": 38, "b": 44},
        xaxis=axis(
            "S, the whole vector",
            type="log",
            range=list(ends),
            tickvals=[1 << power for power in powers],
            ticktext=[str(Size(1 << power)) for power in powers],
        ),
        yaxis=yaxis,
        shapes=[_upright(size) for size in drawn.crossovers],
    )


def _fastest_lines(drawn: Chart) -> list[Figure]:
    """A broad pale line below the curve of each choice, where it is chosen."""
    colors = {name: color for name, color, _ in _drawn_as(drawn)}
    ends = [drawn.sizes[0], *drawn.crossovers, drawn.sizes[-1]]
    lines = []
    for (first, last), choice in zip(pairwise(ends), drawn.selection.choices, strict=True):
        inside = [size for size in drawn.sizes if first < size < last]
        at = [first, *inside, last]
        seconds = np.interp(at, drawn.sizes, drawn.curves[choice.algorithm].seconds)
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": at,
                "y": _short(seconds),
                "line": {"color": colors[choice.algorithm], "width": 13},
                "opacity": 0.3,
                "hoverinfo": "skip",
            }
        )
    return lines


def _curve_lines(
    drawn: Chart, values: Mapping[str, Floats], written: Callable[[float], str]
) -> list[Figure]:
    """A line for each algorithm, those that are the fastest somewhere on top of the others."""
    chosen = {choice.algorithm for choice in drawn.selection.choices}
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label(name),
            "x": list(drawn.sizes),
            "y": _short(values[name]),
            "text": [written(value) for value in values[name].tolist()],
            "line": {"color": color, "dash": dash, "width": 2.5},
            "hovertemplate": "%{fullData.name} %{text}<extra></extra>",
        }
        for name, color, dash in sorted(_drawn_as(drawn), key=lambda one: one[0] in chosen)
    ]


def _halves(drawn: Chart) -> Figure:
    """A dot on each curve where latency is half of the time."""
    halves = {name: one.half(drawn.sizes) for name, one in drawn.curves.items()}
    found = [(name, half) for name, half in halves.items() if half]
    colors = {name: color for name, color, _ in _drawn_as(drawn)}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [half for _, half in found],
        "y": _short(
            np.array(
                [np.interp(half, drawn.sizes, drawn.curves[name].seconds) for name, half in found]
            )
        ),
        "marker": {
            "size": 9,
            "color": "--paper",
            "line": {"color": [colors[name] for name, _ in found], "width": 2.5},
        },
        "hoverinfo": "skip",
    }


def _upright(size: float) -> Figure:
    return {
        "type": "line",
        "x0": size,
        "x1": size,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": "--soft", "width": 1, "dash": "3px,3px"},
    }


def _marks(sizes: Sequence[float]) -> list[Figure]:
    """Sizes above the figure, in two rows where they stand too near each other for one."""
    marks: list[Figure] = []
    for size in sizes:
        place = float(np.log10(size))
        near = bool(marks) and place - marks[-1]["x"] < _NEAR and not marks[-1]["yshift"]
        marks.append(
            {
                "x": place,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "yshift": 15 * near,
                "text": str(Size(rounded(size))),
                "showarrow": False,
                "font": {"color": "--ink", "size": 12},
            }
        )
    return marks


def _side(text: str, x: float, anchor: str) -> Figure:
    return {
        "x": x,
        "y": 0.01,
        "xref": "paper",
        "yref": "paper",
        "xanchor": anchor,
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"color": "--soft", "size": 12},
    }


def _decade(seconds: float) -> str:
    """A power of ten without decimals: ``10 µs``."""
    value, unit = format_seconds(seconds).split()
    return f"{float(value):g} {unit}"


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
