"""Latency and bandwidth between every two ranks: as lines, and as a page of heat maps."""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from steptime.report.template import write_html
from steptime.units import format_seconds

Pairs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Figure:
    """One figure of a pair of ranks."""

    field: str
    title: str
    unit: str
    least_is_best: bool

    def text(self, value: float) -> str:
        """A value in three digits."""
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


FIGURES = (
    Figure("latency_us", "latency", "us", least_is_best=True),
    Figure("bandwidth_GBps", "bandwidth", "GB/s", least_is_best=False),
    Figure("bidirectional_GBps", "bidirectional bandwidth", "GB/s", least_is_best=False),
)

_CELL = 8


def link_lines(pairs: Pairs, columns: int) -> list[str]:
    """Each figure in a line, and below it as a matrix where so many columns hold one."""
    ranks = 1 + max(pair["src"] for pair in pairs)
    lines = []
    for figure in FIGURES:
        line = f"{figure.title} ({figure.unit}, measured): {spread(pairs, figure)}"
        lines += wrap(line, columns, subsequent_indent="  ")
        if _CELL * (ranks + 1) <= columns:
            lines += _matrix(pairs, figure, ranks)
    return lines


def spread(pairs: Pairs, figure: Figure) -> str:
    """From the best to the worst pair of ranks, by name."""
    ranked = sorted(pairs, key=lambda p: p[figure.field], reverse=not figure.least_is_best)
    best, worst = (
        f"{figure.text(p[figure.field])} from {p['src']} to {p['dst']}"
        for p in (ranked[0], ranked[-1])
    )
    return f"best {best}, worst {worst}"


def _matrix(pairs: Pairs, figure: Figure, ranks: int) -> list[str]:
    cells = _cells(pairs, figure, lambda value: value)
    heads = "".join(f"{f'to {rank}':>{_CELL}}" for rank in range(ranks))
    return [
        f"{'':>{_CELL}}{heads}",
        *(
            f"{f'from {src}':>{_CELL}}"
            + "".join(
                f"{figure.text(cells[src, dst]) if src != dst else '-':>{_CELL}}"
                for dst in range(ranks)
            )
            for src in range(ranks)
        ),
    ]


def _cells(
    pairs: Pairs, figure: Figure, value: Callable[[float], Any]
) -> dict[tuple[int, int], Any]:
    return {(pair["src"], pair["dst"]): value(pair[figure.field]) for pair in pairs}


def write_links(path: Path, run: Mapping[str, Any]) -> None:
    """Write the heat maps of a run's ``pairs``, atomically: one HTML file without scripts."""
    pairs = run["pairs"]
    ranks = 1 + max(pair["src"] for pair in pairs)
    worst = max(pairs, key=lambda pair: pair["latency_us"])
    context = {
        "run": run,
        "ranks": ranks,
        "headline": f"From rank {worst['src']} to rank {worst['dst']} a message takes longest: "
        f"{format_seconds(worst['latency_us'] / 1e6)}",
        "maps": [(figure, spread(pairs, figure), _shaded(pairs, figure)) for figure in FIGURES],
    }
    write_html(path, "links.html", context)


def _shaded(pairs: Pairs, figure: Figure) -> dict[tuple[int, int], tuple[str, float]]:
    """Each cell's text, and how bad it is between 0, the best, and 1, the worst."""
    values = [pair[figure.field] for pair in pairs]
    low, width = min(values), (max(values) - min(values)) or 1.0

    def shade(value: float) -> tuple[str, float]:
        badness = (value - low) / width
        return html.escape(figure.text(value)), badness if figure.least_is_best else 1 - badness

    return _cells(pairs, figure, shade)
