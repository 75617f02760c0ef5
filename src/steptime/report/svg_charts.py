"""Charts drawn as SVG where the page is written: a few kB, and nothing to run in the browser.

Each chart comes in two widths, since text in an SVG shrinks with it: the stylesheet shows the one
that fits the window. Colours are those of the page, so that it is light or dark with it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

_WIDTHS = {"wide": 860, "slim": 350}  # pixels, as report.css knows them
_CHARACTER = 6.8  # pixels of a character of 12 px, at most on average


@dataclass(frozen=True)
class Point:
    """A point of a curve; ``told`` is what it says under the mouse."""

    x: float
    y: float
    told: str


@dataclass(frozen=True)
class Curve:
    """A line through points, of a colour as CSS has it and a dash array, empty for none."""

    name: str
    color: str
    dash: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Interval:
    """A row of an interval chart: an estimate, its ends, and whether it is surely not 0."""

    name: str
    low: float
    middle: float
    high: float
    sure: bool
    told: str


def log_chart(
    curves: Sequence[Curve], x_text: Callable[[float], str], x_title: str, y_title: str
) -> Any:
    """Curves on two logarithmic axes, as markup; values must be above 0."""
    return _in_both(lambda width: _log_chart(curves, width, x_text, x_title, y_title))


def interval_chart(rows: Sequence[Interval], x_title: str) -> Any:
    """A row for each interval about its estimate, with a line at 0, as markup."""
    return _in_both(lambda width: _interval_chart(rows, width, x_title))


def _in_both(draw: Callable[[int], str]) -> Any:
    from markupsafe import Markup

    drawn = (f'<div class="{kind}">{draw(width)}</div>' for kind, width in _WIDTHS.items())
    return Markup("".join(drawn))  # noqa: S704 - every text in it is escaped


def _svg(width: int, height: float, parts: Iterator[str], label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" '
        f'role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _log_chart(
    curves: Sequence[Curve], width: int, x_text: Callable[[float], str], x_title: str, y_title: str
) -> str:
    left, right, top, bottom, height = 58, 14, 30, 52, 380 if width > 500 else 320
    points = [point for curve in curves for point in curve.points]
    xs, ys = sorted({point.x for point in points}), [point.y for point in points]
    x_of = _log_scale(xs[0], xs[-1], left + 8, width - right - 8)
    y_of = _log_scale(min(ys), max(ys), height - bottom - 8, top + 8)

    def parts() -> Iterator[str]:
        for value in _decades(min(ys), max(ys)):
            y = y_of(value)
            yield f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield _text(left - 6, y + 4, f"{value:g}", "end")
        for value in _some(xs, int((width - left) // 72)):
            yield _text(x_of(value), height - bottom + 18, x_text(value), "middle")
        yield _text(left, 14, y_title, "start")
        yield _text((left + width - right) / 2, height - 8, x_title, "middle")
        for curve in curves:
            yield from _curve(curve, x_of, y_of)

    return _svg(width, height, parts(), f"{y_title} against {x_title}")


def _curve(
    curve: Curve, x_of: Callable[[float], float], y_of: Callable[[float], float]
) -> Iterator[str]:
    places = [(x_of(point.x), y_of(point.y), point.told) for point in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
    yield f'<polyline class="curve" points="{line}" style="stroke: {curve.color}"{dash}/>'
    for x, y, told in places:
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill: {curve.color}">'
            f"<title>{escape(told)}</title></circle>"
        )


def _interval_chart(rows: Sequence[Interval], width: int, x_title: str) -> str:
    longest = max(len(row.name) for row in rows)
    left, right, row_height, top = int(longest * _CHARACTER) + 24, 16, 34, 8
    height = top + row_height * len(rows) + 48
    low, high = min(0.0, *(row.low for row in rows)), max(0.0, *(row.high for row in rows))
    span = (high - low) or 1.0

    def x_of(value: float) -> float:
        return left + (value - low) / span * (width - left - right)

    def parts() -> Iterator[str]:
        floor = top + row_height * len(rows)
        for value in _round_steps(low, high, int((width - left) // 80)):
            x = x_of(value)
            kind = "zero" if value == 0 else "grid"
            yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{floor}"/>'
            yield _text(x, floor + 18, f"{value:g}".replace("-", "−"), "middle")
        yield _text((left + width - right) / 2, height - 8, x_title, "middle")
        for number, row in enumerate(rows):
            y = top + row_height * (number + 0.5)
            kind = "sure" if row.sure else "unsure"
            yield _text(0, y + 4, row.name, "start", "name")
            yield (
                f'<g class="{kind}"><title>{escape(row.told)}</title>'
                f'<line x1="{x_of(row.low):.1f}" x2="{x_of(row.high):.1f}" y1="{y}" y2="{y}"/>'
                f'<circle cx="{x_of(row.middle):.1f}" cy="{y}" r="5"/></g>'
            )

    return _svg(width, height, parts(), f"{x_title}, with intervals")


def _log_scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """Where a value stands between ``first`` and ``last``; one value alone in the middle."""
    span = math.log(high / low)
    if not span:
        return lambda _: (first + last) / 2
    return lambda value: first + (last - first) * math.log(value / low) / span


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between two values, or with 2 and 5 between where they are but few."""
    ends = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        found = [factor * 10.0**power for power in ends for factor in factors]
        found = [float(f"{value:.2g}") for value in found if low <= value <= high]
        if len(found) > 2:
            break
    return found or [float(f"{low:.2g}")]


def _some(values: Sequence[float], most: int) -> Sequence[float]:
    """At most so many of some values, evenly."""
    return values[:: -(-len(values) // max(1, most))]


def _round_steps(low: float, high: float, most: int) -> list[float]:
    """Round values between two, 0 among them, at most about so many."""
    rough = (high - low) / max(1, most) or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.6g}") for number in range(first, last + 1)]


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(words)}</text>'
