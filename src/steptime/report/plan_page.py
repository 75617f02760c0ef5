"""The page of a plan: the front, the space as a map, and the account of the best as a waterfall."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steptime.predict.account import TERMS
from steptime.report.about import machine_rows
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION
from steptime.report.plan_lines import (
    besides,
    figures_sentence,
    headline,
    near_best,
    notes,
    pipeline_text,
    sentence_of,
    subject,
    training_sentence,
    unfit_sentence,
    upper_first,
)
from steptime.report.template import write_html
from steptime.runs.plan import LayoutFigures, PlanCell, PlanRecord
from steptime.units import format_seconds

_GB = 1e9
_MOST_ROWS = 12
_SCALE = [[0.0, SKY], [1.0, "#F5F3E8"]]  # dark text is read on all of it
_SLOW = 2.0  # times the best: what is slower has the palest colour
_COMPUTE = ("products", "attention", "memory-bound", "recompute", "optimizer")


def write_plan(path: Path, run: PlanRecord) -> None:
    """Write the page of a plan, atomically: one file, no network."""
    write_html(path, "plan.html", context(run))


def context(run: PlanRecord) -> dict[str, Any]:
    """What the template shows of a plan."""
    best = run.best[0]
    figures = {"map": map_figure(run.cells), "account": account_figure(best)}
    leaner = near_best(run) if run.fits else []
    if len(leaner) > 1:
        figures["front"] = front_figure(run, leaner)
    if len(run.front_gpus) > 1:
        figures["gpus"] = gpus_figure(run.front_gpus)
    return {
        "run": run,
        "headline": headline(run) if run.fits else unfit_sentence(run),
        "subject": subject(run),
        "training": training_sentence(run),
        "notes": list(notes(run)),
        "figures": figures,
        "rows": [_row(run, one) for one in run.best],
        "front": [_row(run, one) for one in leaner],
        "gpus": [_row(run, one) for one in run.front_gpus],
        "accounts": _accounts(run.best),
        "words": TERMS,
        "layout": upper_first(sentence_of(best)),
        "figures_of_best": figures_sentence(run, best),
        "command": shlex.join(run.environment.command),
        "simulate": f"steptime simulate {run.model} --cluster {run.cluster} {best.options}",
        "environment": _environment(run),
    }


def front_figure(run: PlanRecord, front: Sequence[LayoutFigures]) -> Figure:
    """Step time against memory: the front as a line, the best layouts as points."""
    unit, times = _unit(front)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "front",
                "x": [round(one.memory_bytes / _GB, 3) for one in front],
                "y": [_digits(one.step_time_s * times) for one in front],
                "text": [_told(one) for one in front],
                "line": {"color": BLUE, "width": 2.5, "shape": "hv"},
                "marker": {"color": BLUE, "size": 8},
                "hovertemplate": "%{text}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "the best",
                "x": [round(one.memory_bytes / _GB, 3) for one in run.best],
                "y": [_digits(one.step_time_s * times) for one in run.best],
                "text": [_told(one) for one in run.best],
                "marker": {"color": ORANGE, "size": 9, "symbol": "diamond"},
                "hovertemplate": "%{text}<extra></extra>",
            },
        ],
        "layout": layout(
            360,
            hovermode="closest",
            xaxis=axis("GB a rank"),
            yaxis=axis(f"{unit} a step", rangemode="tozero"),
        ),
    }


def gpus_figure(front: Sequence[LayoutFigures]) -> Figure:
    """The step of the best layout on each number of GPUs, beside what perfect scaling would be."""
    unit, times = _unit(front)
    first = front[0]
    ideal = [first.step_time_s * first.gpus / one.gpus for one in front]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "ideal",
                "x": [one.gpus for one in front],
                "y": [_digits(seconds * times) for seconds in ideal],
                "line": {"color": "--ink", "width": 1.5, "dash": "6px,4px"},
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "best",
                "x": [one.gpus for one in front],
                "y": [_digits(one.step_time_s * times) for one in front],
                "text": [f"<b>{one.gpus:,} GPUs</b><br>{_told(one)}" for one in front],
                "line": {"color": BLUE, "width": 2.5},
                "marker": {"color": BLUE, "size": 8},
                "hovertemplate": "%{text}<extra></extra>",
            },
        ],
        "layout": layout(
            360,
            hovermode="closest",
            xaxis=axis(
                "GPUs",
                type="log",
                tickvals=[one.gpus for one in front],
                ticktext=[f"{one.gpus:,}" for one in front],
                showgrid=False,
            ),
            yaxis=axis(f"{unit} a step", type="log", nticks=6),
        ),
    }


def map_figure(cells: Sequence[PlanCell]) -> Figure:
    """The space: the best step with each number of tensor ranks and of stages."""
    tensor = sorted({cell.tensor for cell in cells})
    stages = sorted({cell.pipeline for cell in cells})
    of = {(cell.tensor, cell.pipeline): cell for cell in cells}
    steps = [cell.step_time_s for cell in cells if cell.step_time_s is not None]
    least = min(steps, default=1.0)
    grid = [[of.get((t, p)) for t in tensor] for p in stages]
    values = [[_slower(cell, least) for cell in row] for row in grid]
    return {
        "data": [
            {
                "type": "heatmap",
                "z": values,
                "x": list(range(len(tensor))),
                "y": list(range(len(stages))),
                "text": [[_cell_text(cell) for cell in row] for row in grid],
                "customdata": [[_cell_told(cell, least) for cell in row] for row in grid],
                "texttemplate": "%{text}",
                "textfont": {"size": 11, "color": "#111111"},
                "hovertemplate": "%{customdata}<extra></extra>",
                "colorscale": _SCALE,
                "zmin": 1.0,
                "zmax": _SLOW,
                "showscale": False,
                "xgap": 2,
                "ygap": 2,
            }
        ],
        "layout": layout(
            90 + 34 * len(stages),
            xaxis=axis(
                "ranks along tensor",
                tickvals=list(range(len(tensor))),
                ticktext=[f"{n}" for n in tensor],
                showgrid=False,
            ),
            yaxis=rows_axis([f"{n}" for n in stages]) | {"title": {"text": "stages"}},
            annotations=[
                _annotation(x, y, _cell_text(cell))
                for y, row in enumerate(grid)
                for x, cell in enumerate(row)
                if cell is not None and cell.step_time_s is None
            ],
        ),
    }


def account_figure(one: LayoutFigures) -> Figure:
    """Where the step of a layout goes, term upon term."""
    terms = sorted(one.terms.items(), key=lambda term: -term[1])
    kept = terms[:_MOST_ROWS]
    unit, times = ("ms", 1e3) if one.step_time_s < 1 else ("s", 1.0)
    begin, bars = 0.0, []
    for name, seconds in kept:
        bars.append((name, begin, seconds))
        begin += seconds
    names = [*(name for name, _, _ in bars), "step"]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": list(range(len(names))),
                "base": [*(_digits(start * times) for _, start, _ in bars), 0.0],
                "x": [
                    *(_digits(seconds * times) for _, _, seconds in bars),
                    _digits(one.step_time_s * times),
                ],
                "marker": {"color": [*(_color(name) for name in names[:-1]), "--ink"]},
                "text": [
                    *(
                        f"{format_seconds(seconds)}, {100 * seconds / one.step_time_s:.1f} %"
                        for _, _, seconds in bars
                    ),
                    format_seconds(one.step_time_s),
                ],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
            }
        ],
        "layout": layout(
            80 + 30 * len(names),
            hovermode="closest",
            xaxis=axis(f"{unit} of the step", rangemode="tozero"),
            yaxis=rows_axis([label(name) for name in names]),
        ),
    }


def _color(term: str) -> str:
    if term in _COMPUTE:
        return GREEN if term == "optimizer" else BLUE
    return ORANGE if term == "bubble" else GREY if term in ("host", "launches") else VERMILLION


def _slower(cell: PlanCell | None, least: float) -> float | None:
    """How many times the best step of all the cell's best one takes."""
    if cell is None or cell.step_time_s is None:
        return None
    return _digits(min(cell.step_time_s / least, _SLOW))


def _cell_text(cell: PlanCell | None) -> str:
    if cell is None:
        return ""
    if cell.step_time_s is None:
        return f"{cell.memory_bytes / _GB:,.0f} GB"
    return format_seconds(cell.step_time_s).replace(" ", "\u00a0")


def _cell_told(cell: PlanCell | None, least: float) -> str:
    if cell is None:
        return ""
    opening = f"tensor {cell.tensor}, pipeline {cell.pipeline}: {cell.layouts:,} layouts"
    if cell.step_time_s is None:
        return f"{opening}<br>none fits: the leanest keeps {cell.memory_bytes / _GB:,.1f} GB"
    times = cell.step_time_s / least
    return f"{opening}<br>best step {format_seconds(cell.step_time_s)}, {times:.2f}× the best"


def _annotation(x: int, y: int, text: str) -> Figure:
    return {
        "x": x,
        "y": y,
        "text": text,
        "showarrow": False,
        "font": {"size": 11, "color": "--alarm"},
    }


def _accounts(best: Sequence[LayoutFigures]) -> list[tuple[str, list[str]]]:
    """A row for each term that any of the best has: its seconds in each."""
    names = [name for name in TERMS if any(one.terms.get(name) for one in best)]
    names += [name for one in best for name in one.terms if name not in TERMS and name not in names]
    return [
        (name, [format_seconds(one.terms[name]) if one.terms.get(name) else "" for one in best])
        for name in dict.fromkeys(names)
    ]


def _row(run: PlanRecord, one: LayoutFigures) -> dict[str, str]:
    error = f"± {100 * one.expected_error:.0f} %" if one.expected_error else "–"
    return {
        "gpus": f"{one.gpus:,}",
        "data": f"{one.axes['data']:,}",
        "tensor": f"{one.axes['tensor']}{' + sp' * one.sequence_parallel}",
        "pipeline": pipeline_text(one),
        "context": f"{one.axes['context']}",
        "expert": f"{one.axes['expert']}",
        "rows": f"{one.micro_batches} × {one.micro_batch}",
        "zero": f"{one.zero}",
        "recompute": one.recompute,
        "step": format_seconds(one.step_time_s),
        "error": error,
        "mfu": f"{100 * one.mfu:.1f} %",
        "memory": f"{one.memory_bytes / _GB:.1f} GB",
        "tokens": f"{one.tokens_per_s_per_device:,.0f}",
        "besides": besides(one),
        "unfit": "" if one.memory_bytes <= run.device_bytes else "unfit",
    }


def _told(one: LayoutFigures) -> str:
    return (
        f"<b>{format_seconds(one.step_time_s)}</b>, {one.memory_bytes / _GB:.1f} GB, "
        f"{100 * one.mfu:.1f} % MFU<br>{label(sentence_of(one))}"
    )


def _unit(layouts: Sequence[LayoutFigures]) -> tuple[str, float]:
    slow = min(one.step_time_s for one in layouts) >= 1
    return ("s", 1.0) if slow else ("ms", 1e3)


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def _environment(run: PlanRecord) -> list[tuple[str, str]]:
    return [
        *machine_rows(run.environment),
        ("searched", f"{run.searched:,} layouts in {format_seconds(run.wall_s)}"),
    ]
