"""The history of a figure in a terminal: a block a series, a line a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from steptime.units import format_seconds

_BARS = "▁▂▃▄▅▆▇█"
_STILL = 0.02
"""Values that lie closer than this part of themselves are drawn level."""


def print_history(console: Console, run: Mapping[str, Any]) -> None:
    """Print ``run``, the JSON of the verb."""
    width = console.width
    for series in run["series"]:
        console.print(Text(title(series), style="bold"))
        console.print(Text(_headline(series, run["figure"], width)))
        for line in _rows(series["points"], run["figure"], width):
            console.print(Text(line, no_wrap=True, overflow="ellipsis"))
        console.print()
    for line in _others(run):
        console.print(Text(line))


def title(series: Mapping[str, Any]) -> str:
    """What the runs of a series have in common."""
    ranks = f"{series['ranks']} rank{'s' * (series['ranks'] != '1')}"
    threads = f" × {series['threads']} thread{'s' * (series['threads'] != '1')}"
    parts = (
        f"{series['verb']} {series['model']}",
        series["strategy"],
        ranks + threads * bool(series["threads"]),
        series["precision"],
        f"batch {series['batch']}" if series["batch"] else "",
        series["backend"],
        f"{series['source']} on {series['machine']}",
        *(f"{name} {value}" for name, value in series["apart"].items()),
    )
    return ", ".join(part for part in parts if part)


def value_text(value: float, figure: str) -> str:
    """A value of the figure with its unit."""
    return (
        format_seconds(value)
        if figure.endswith("_s") and "per" not in figure
        else f"{value:,.0f}/s"
    )


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as bars of eight heights, the latest ``width`` of them."""
    latest = list(values)[-width:]
    low, high = min(latest), max(latest)
    if high - low <= _STILL * abs(high):
        return _BARS[3] * len(latest)
    steps = len(_BARS) - 1
    return "".join(_BARS[round(steps * (value - low) / (high - low))] for value in latest)


def _headline(series: Mapping[str, Any], figure: str, width: int) -> str:
    values = [point["value"] for point in series["points"]]
    ends = f"{value_text(min(values), figure)} to {value_text(max(values), figure)}"
    runs = f"{len(values)} run{'s' * (len(values) != 1)}"
    line = sparkline(values, width - len(ends) - len(runs) - 14)
    return f"  {line}  {ends}, {runs}"


def _rows(points: Sequence[Mapping[str, Any]], figure: str, width: int) -> Iterator[str]:
    before = None
    for point in points:
        value = point["value"]
        change = f"{100 * (value / before - 1):+.1f} %" if before else ""
        spread = ""
        if point["p10"] is not None:
            spread = _span(point["p10"], point["p90"])
        revision = short_revision(point["git_revision"])
        left = (
            f"  {point['time'][:16].replace('T', ' ')}  {revision:<9}"
            f"{value_text(value, figure):>10}  {spread:<15} {change.replace('-', '−'):>8}"
        )
        yield f"{left}  {point['run']}"[:width]
        before = value


def _span(low: float, high: float) -> str:
    """Two times with the unit said once where it is the same."""
    one, other = format_seconds(low), format_seconds(high)
    number, unit = one.split()
    return f"{number if other.endswith(f' {unit}') else one}–{other}"


def short_revision(revision: str | None) -> str:
    """The first digits of a revision, and * where the tree was changed since."""
    if not revision:
        return "–"
    clean = revision.removesuffix("-dirty")
    return clean.rpartition("-g")[2][:8] + "*" * (clean != revision)


def _others(run: Mapping[str, Any]) -> Iterator[str]:
    if run["without"]:
        verbs: dict[str, int] = {}
        for one in run["without"]:
            verbs[one["verb"]] = verbs.get(one["verb"], 0) + 1
        many = ", ".join(f"{count} of {verb}" for verb, count in verbs.items())
        yield f"Without {run['figure']}: {many}."
    for one in run["damaged"]:
        yield f"damaged: {one['run']}: {one['why']}"
    if any(_changed(point) for series in run["series"] for point in series["points"]):
        yield "* The tree had changes that were not committed."


def _changed(point: Mapping[str, Any]) -> bool:
    return str(point["git_revision"]).endswith("-dirty")
