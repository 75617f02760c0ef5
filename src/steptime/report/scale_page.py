"""The page of a scaling study: curves with their ideal line, and the efficiencies as a tree."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

from steptime.report.about import machine_rows
from steptime.report.figures import Figure, axis, label, layout, logarithmic
from steptime.report.palette import CURVES, DASHES, YELLOW
from steptime.report.scale_table import (
    FACTORS,
    Entry,
    baseline_sentence,
    bound_sentence,
    cell_name,
    misfit_sentence,
    source_sentence,
    speedup,
    used_sentences,
    way,
)
from steptime.report.template import write_html
from steptime.report.utilisation import share
from steptime.runs.scale import ScaleRecord
from steptime.units import format_seconds

# Okabe & Ito, as in the other figures, with their black in place of a yellow that paper swallows.
_COLORS = tuple("--ink" if color == YELLOW else color for color in CURVES)
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")
_SHADES = (0.5, 0.65, 0.8, 0.9)  # POP reads 0.8 and more as acceptable
_LEVELS = (0.8, 0.5, 0.25)  # efficiencies that have a line; POP reads 0.8 as acceptable
_MOST_TICKS = 12
_ALIKE = 0.99  # of the best one's factor: what is as good does not fall behind
_SINGLE = [
    factor
    for factor in FACTORS
    if factor.field not in ("global_efficiency", "parallel_efficiency", "communication_efficiency")
]
_FAR = 3.0  # from which values a logarithmic axis has ticks enough


@dataclass(frozen=True)
class Line:
    """The cells of one curve in order of their threads, and how it is drawn."""

    name: str
    cells: Sequence[Entry]
    color: str
    dash: str
    symbol: str


def write_scale(path: Path, run: ScaleRecord) -> None:
    """Write the page of a study, atomically: one file, no network."""
    write_html(path, "scale.html", context(run))


def context(run: ScaleRecord) -> dict[str, Any]:
    """What the template shows of a study."""
    drawn = lines(run)
    cells = run.cells
    return {
        "run": run,
        "headline": headline(run),
        "misfit": misfit_sentence(run),
        "baseline": baseline_sentence(run),
        "behind": behind(run),
        "doubt": doubt(run),
        "sources": " ".join([source_sentence(run), *used_sentences(run)]),
        "facts": _facts(run),
        "source": ", ".join(dict.fromkeys(cell.source for cell in cells)),
        "keys": [
            (f"var({one.color})" if one.color.startswith("--") else one.color, one) for one in drawn
        ],
        "figures": {
            "times": times_figure(drawn),
            "speedups": speedup_figure(drawn, run),
        },
        "columns": [(cell_name(cell), way(cell), run.baseline.holds(cell)) for cell in cells],
        "tree": [
            (factor, [_shaded(getattr(cell, factor.field)) for cell in cells]) for factor in FACTORS
        ],
        "rows": [_row(cell) for cell in cells],
        "used": any(cell.utilisation for cell in cells),
        "peaks": any(cell.utilisation and cell.utilisation.mfu for cell in cells),
        "measured": any(cell.source == "measured" for cell in cells),
        "oversubscribed": any(cell.oversubscribed for cell in cells),
        "command": shlex.join(run.environment.command),
        "environment": _environment(run),
    }


def headline(run: ScaleRecord) -> str:
    """What becomes of the baseline in the largest cell that does best, and what bounds that."""
    most = max(cell.workers for cell in run.cells)
    largest = [cell for cell in run.cells if cell.workers == most]
    best = max(largest, key=lambda cell: cell.speedup)
    base = run.baseline
    if run.baseline.holds(best):
        return f"{_plain_name(best)}: {bound_sentence(best)}"
    times = most / (base.ranks * base.threads)
    return (
        f"Scaled to {times:g} times the {_unit(run)}, {run.work.model} does {speedup(best)[:-1]} "
        f"times the work a second ({_plain_name(best)}): {bound_sentence(best)}"
    )


def doubt(run: ScaleRecord) -> str:
    """How sure the headline is."""
    if run.cluster:
        off = [cell.expected.error for cell in run.cells if cell.expected]
        known = f"errors of up to {100 * max(off):.0f} % are expected" if off else ""
        return f"Simulated, not measured; {known or 'nobody knows how far off the times are'}."
    if run.in_turns:
        return "The points took turns; ± is half the 95 % interval of a speedup."
    return "Each point was measured once, one after the other: a machine that changed is in these."


def behind(run: ScaleRecord) -> list[str]:
    """Why each strategy falls behind the best one on the most ranks: the factor it loses most in.

    The factors are POP's that nothing else is the product of.
    """
    most = max(cell.workers for cell in run.cells)
    largest = [cell for cell in run.cells if cell.workers == most]
    best = max(largest, key=lambda cell: cell.efficiency)
    told = []
    for cell in sorted(largest, key=lambda cell: -cell.efficiency):
        kept = {
            factor: (getattr(cell, factor.field), getattr(best, factor.field))
            for factor in _SINGLE
            if getattr(best, factor.field)
        }
        factor = min(kept, key=lambda one: kept[one][0] / kept[one][1])
        own, other = kept[factor]
        if cell is best or own >= _ALIKE * other:
            continue
        told.append(
            f"{_plain_name(cell)} falls behind {_plain_name(best)} most by its {factor.name}: "
            f"{100 * own:.1f}\u00a0% against {100 * other:.1f}\u00a0%."
        )
    return told


def _plain_name(cell: Entry) -> str:
    return f"{cell_name(cell).rstrip('*')} {way(cell)}"


def lines(run: ScaleRecord) -> list[Line]:
    """One curve for each strategy and number of threads, and one for the threads of one rank.

    The cell of one rank, in which all strategies do the same, begins each of them.
    """
    cells: Sequence[Entry] = run.cells
    groups: dict[tuple[str, int], list[Entry]] = {}
    for cell in cells:
        if cell.ranks > 1:
            groups.setdefault((cell.strategy, cell.threads), []).append(cell)
    alone = {cell.threads: cell for cell in cells if cell.ranks == 1}
    strategies = list(dict.fromkeys(strategy for strategy, _ in groups))
    threads = sorted({count for _, count in groups})
    drawn = []
    if len(alone) > 1 or not groups:
        drawn.append(
            Line("fork-join, one rank", list(alone.values()), "--soft", "2px,3px", "cross")
        )
    for (strategy, count), own in groups.items():
        place = strategies.index(strategy) % len(_COLORS)
        first = [alone[count]] if count in alone else []
        several = f", {count} thread{'s' * (count > 1)} a rank" if len(threads) > 1 else ""
        drawn.append(
            Line(
                f"{strategy}{several}",
                [*first, *own],
                _COLORS[place],
                DASHES[threads.index(count) % len(DASHES)],
                _SYMBOLS[place % len(_SYMBOLS)],
            )
        )
    return drawn


def times_figure(drawn: Sequence[Line]) -> Figure:
    """Milliseconds a step, with the deciles of what was measured, both axes logarithmic."""
    data = []
    for one in drawn:
        trace = _trace(one, lambda cell: 1e3 * cell.step_time_s)
        spreads = [cell.step_time_spread_s for cell in one.cells]
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, 1e3 * (s.p90 - s.mean)) for s in spreads],
            "arrayminus": [max(0.0, 1e3 * (s.mean - s.p10)) for s in spreads],
            "color": one.color,
            "thickness": 1.5,
            "width": 4,
        }
        data.append(trace)
    return {"data": data, "layout": _layout(drawn, _upright("ms a step", data))}


def speedup_figure(drawn: Sequence[Line], run: ScaleRecord) -> Figure:
    """Speedup against the baseline on logarithmic axes, where a line is one efficiency.

    Curves that follow the ideal line scale; grey lines tell what those below it have left.
    """
    base = run.baseline.ranks * run.baseline.threads
    ends = [min(_places(drawn)), max(_places(drawn))]
    curves = [_trace(one, lambda cell: cell.speedup) for one in drawn]
    levels = [_ideal(ends, [end / base for end in ends])]
    levels += [_level(ends, base, part) for part in _LEVELS]
    values = [value for trace in curves for value in trace["y"]]
    upright = logarithmic("speedup", [*values, ends[1] / base])
    marks = [
        {
            "x": 1,
            "y": log10(part * ends[1] / base),
            "xref": "paper",
            "xanchor": "left",
            "xshift": 4,
            "text": f"{100 * part:.0f} %",
            "showarrow": False,
            "font": {"color": "--soft", "size": 11},
        }
        for part in (1.0, *_LEVELS)
        if 10 ** upright["range"][0] <= part * ends[1] / base
    ]
    margin = {"l": 8, "r": 46, "t": 6, "b": 44}
    more = {"annotations": marks, "margin": margin}
    return {"data": [*levels, *curves], "layout": _layout(drawn, upright) | more}


def _level(x: Sequence[float], base: int, part: float) -> Figure:
    line = {"color": "--line", "width": 1.5}
    return _ideal(x, [part * end / base for end in x]) | {"name": f"{part:.0%}", "line": line}


def _trace(one: Line, value: Callable[[Entry], float]) -> Figure:
    texts = [
        f"<b>{label(cell_name(cell))} {label(way(cell))}</b> {cell.source}<br>"
        f"{format_seconds(cell.step_time_s)} a step, {speedup(cell)}, "
        f"{100 * cell.efficiency:.1f} %"
        for cell in one.cells
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(one.name),
        "x": [cell.workers for cell in one.cells],
        "y": [float(f"{value(cell):.6g}") for cell in one.cells],
        "text": texts,
        "line": {"color": one.color, "dash": one.dash, "width": 2.5},
        "marker": {"color": one.color, "symbol": one.symbol, "size": 8},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _upright(title: str, traces: Sequence[Figure]) -> Figure:
    """An axis for the values of some traces: logarithmic, or from 0 where they lie close."""
    values = [value for trace in traces for value in trace["y"]]
    if max(values) / min(values) < _FAR:
        return axis(title, rangemode="tozero")
    return logarithmic(title, values)


def _ideal(x: Sequence[float], y: Sequence[float]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "ideal",
        "x": list(x),
        "y": list(y),
        "line": {"color": "--ink", "width": 1.5, "dash": "6px,4px"},
        "hoverinfo": "skip",
    }


def _layout(drawn: Sequence[Line], yaxis: Figure) -> Figure:
    places = sorted(set(_places(drawn)))
    shown = places[:: -(-len(places) // _MOST_TICKS)]
    several = any(cell.threads > 1 for one in drawn for cell in one.cells)
    return layout(
        360,
        hovermode="closest",
        xaxis=axis(
            "threads of all ranks" if several else "ranks",
            type="log",
            tickvals=shown,
            ticktext=[f"{place:,}" for place in shown],
            showgrid=False,
        ),
        yaxis=yaxis,
    )


def _places(drawn: Sequence[Line]) -> list[int]:
    return [cell.workers for one in drawn for cell in one.cells]


def _unit(run: ScaleRecord) -> str:
    return "threads" if any(cell.threads > 1 for cell in run.cells) else "ranks"


def _shaded(value: float) -> tuple[str, int]:
    """A factor in percent, and its shade from 0, bad, to 4, good."""
    return f"{100 * value:.1f}", sum(value >= least for least in _SHADES)


def _row(cell: Entry) -> Mapping[str, str]:
    spread = cell.step_time_spread_s
    measured = cell.source == "measured"
    tokens = cell.tokens_per_s
    return {
        "name": f"{cell_name(cell)} {way(cell)}",
        "mean": format_seconds(cell.step_time_s),
        "median": format_seconds(spread.median) if measured else "",
        "spread": f"{format_seconds(spread.p10)} – {format_seconds(spread.p90)}"
        if measured
        else "",
        "tokens": f"{tokens:,.0f}" if tokens else "–",
        **_used(cell),
        "speedup": speedup(cell),
        "efficiency": f"{100 * cell.efficiency:.1f} %",
        "bound": bound_sentence(cell),
        "unfit": "unfit" if cell.fits is False else "",
        "execution": "" if cell.execution == way(cell) else cell.execution,
    }


def _used(cell: Entry) -> Mapping[str, str]:
    """What a cell uses of its devices, and how far it may be off."""
    used = cell.utilisation
    if used is None:
        return {"each": "–", "tflops": "–", "mfu": "–", "hfu": "–", "expected": "–"}
    return {
        "each": f"{used.tokens_per_s_per_device:,.0f}",
        "tflops": f"{used.tflops_per_device:.3g}",
        "mfu": f"{share(used.mfu)} %" if used.mfu else "–",
        "hfu": f"{share(used.hfu)} %" if used.hfu else "–",
        "expected": f"{100 * cell.expected.error:.0f} %" if cell.expected else "unknown",
    }


def _facts(run: ScaleRecord) -> list[tuple[str, str, str]]:
    """What the run was: name, value, and a smaller word on it."""
    kind = "on each rank" if run.scaling == "weak" else "in all, on any number of ranks"
    facts = [
        ("model", str(run.work.model), ""),
        ("precision", str(run.work.precision), ""),
        ("batch", f"{run.work.batch:,}", kind)
        if run.work.batch is not None
        else ("batch", "as many rows", "on each replica"),
    ]
    if run.cluster:
        return [*facts, ("cluster", str(run.cluster), str(run.cluster_title))]
    steps = f"{run.steps} timed steps a cell"
    return [*facts, ("backend", str(run.backend), ""), ("measured on", steps, "")]


def _environment(run: ScaleRecord) -> list[tuple[str, str]]:
    return [
        *machine_rows(run.environment),
        ("git revision", str(run.environment.git_revision)),
    ]
