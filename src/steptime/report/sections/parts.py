"""Where the step goes: its parts, and the axes that it spends them along."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from steptime.program import PIPELINE
from steptime.report.alike import alike
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.kinds import name_of
from steptime.report.palette import PARTS, Part, parts_of
from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.runs.figures import Parts, RankFigures, StepFigures
from steptime.runs.record import RunRecord
from steptime.units import format_seconds

_FEW_ROWS = 12  # whose labels have two lines
_MOST_ROWS = 33  # rows: of a strategy, and of its ranks
_ROUNDING = 1e-6  # of what is exposed: what is less comes from adding up times


def _shown(page: Page) -> Mapping[str, Any]:
    rows = _parts_rows(page.subjects)
    left_out = max(0, len(rows) - _MOST_ROWS) if len(page.subjects) == 1 else 0
    rows = rows[: len(rows) - left_out]
    parts = parts_of([entry for _, _, entry in rows])
    return {
        "parts_left_out": left_out,
        "parts_key": [(part.color, part.label) for part in parts],
        "axes": _axes(page.record) if page.single else [],
        "by_axis": by_axis(page.subjects),
        "figures": {"parts": parts_figure(rows, parts)},
    }


def parts_figure(rows: Sequence[tuple[str, str, Parts]], parts: Sequence[Part]) -> Figure:
    """Stacked bars of ``parts`` of a step; a row is its name, a note below it, and the step."""
    data = []
    for part in parts:
        seconds = [getattr(entry, part.field) for _, _, entry in rows]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part.label,
                "y": list(range(len(rows))),
                "x": [value * 1e3 for value in seconds],
                "width": 0.62,
                "marker": {"color": part.color, "line": {"color": "--paper", "width": 1}},
                "text": [format_seconds(value) for value in seconds],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "insidetextfont": {"color": part.text_color},
                "textangle": 0,
                "customdata": [label(name) for name, _, _ in rows],
                "hovertemplate": "<b>%{customdata}</b><br>%{fullData.name} %{text}<extra></extra>",
            }
        )
    many = len(rows) > _FEW_ROWS
    between = "  " if many else "<br>"
    names = [f"{label(name)}{between}<b>{label(note)}</b>" for name, note, _ in rows]
    return {
        "data": data,
        "layout": layout(
            64 + (22 if many else 52) * len(rows),
            barmode="stack",
            uniformtext={"mode": "hide", "minsize": 10},
            xaxis=axis("ms a step", rangemode="tozero"),
            yaxis=rows_axis(names, ticklabelstandoff=8),
        ),
    }


def _parts_rows(found: Sequence[Subject]) -> list[tuple[str, str, Parts]]:
    """A row a strategy; of one strategy alone its ranks too, so that a slow one stands out.

    Those of its ranks that are alike share a row.
    """
    rows: list[tuple[str, str, Parts]] = [
        (one.name, format_seconds(one.entry.step_time_s.median), one.entry) for one in found
    ]
    if len(rows) > 1:
        return rows
    one = found[0]
    ranks = [rank for rank in one.entry.ranks if not isnan(rank.compute_s)]
    same = alike(ranks, lambda rank: (format_seconds(rank.step_time_s), *_shown_parts(rank)))
    return rows + [
        (_named(group, one.entry), format_seconds(group[0].step_time_s), group[0]) for group in same
    ]


def _shown_parts(entry: Parts) -> tuple[str, ...]:
    """The parts as they are written: ranks of which all are the same have one bar."""
    return tuple(format_seconds(getattr(entry, part.field) or 0.0) for part in PARTS)


def _named(ranks: Sequence[RankFigures], entry: StepFigures) -> str:
    """Some ranks, and the host that they share, where nothing else is told of their places."""
    hosts = {rank.host for rank in ranks} if not entry.placement else {""}
    where = f" on {ranks[0].host}" if len(hosts) == 1 and all(hosts) else ""
    return name_of([rank.rank for rank in ranks], entry) + where


def _axes(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """What a proxy's step is spent on, axis by axis: mean of ranks, slowest, and under way."""
    step = run.proxy_step
    if step is None:
        return []
    return [
        (
            step.name_of(what),
            format_seconds(of.mean_s),
            format_seconds(of.max_s),
            format_seconds(step.under_way[what]) if what in step.under_way else "",
        )
        for what, of in step.phases.items()
        if of.max_s
    ]


def by_axis(found: Sequence[Subject]) -> dict[str, Any]:
    """The table of what each step spends along each axis, where ranks share a model: its rows.

    ``rows``: the strategy where there are several, the axis, and each time as mean of the ranks and
    of the slowest. ``bubble`` is that of the pipeline's schedule, and None where no step has one.
    """
    shown = [one for one in found if one.entry.axes]
    rows = [row for one in shown for row in _axis_rows(one)]
    return {"rows": rows, "named": len(shown) > 1, "bubble": any(row["bubble"] for row in rows)}


def _axis_rows(one: Subject) -> Iterator[dict[str, str]]:
    """A row an axis, and one of what is exposed while no call is under way."""
    left = one.entry.exposed_comm_s
    for of in one.entry.axes:
        left -= of.exposed_s
        bubble = one.entry.bubble_s if of.axis == PIPELINE else None
        yield {
            "strategy": one.name,
            "axis": of.axis,
            "exposed": _both(of.exposed_s, of.most_exposed_s),
            "hidden": _both(of.hidden_s, of.most_hidden_s),
            "under_way": _both(of.under_way_s, of.most_under_way_s),
            "bubble": format_seconds(bubble) if bubble else "",
        }
    if left > _ROUNDING * one.entry.exposed_comm_s:
        empty = dict.fromkeys(("hidden", "under_way", "bubble"), "")
        yield {
            "strategy": one.name,
            "axis": "no call under way",
            "exposed": format_seconds(left),
            **empty,
        }


def _both(mean_s: float, most_s: float) -> str:
    return f"{format_seconds(mean_s)} · {format_seconds(most_s)}"


SECTION = Section("parts", 30, _shown)
