"""Where the step goes: its parts, and the axes that a proxy waits for."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from steptime.report.alike import alike, ranks_text
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import PARTS, Part, parts_of
from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.runs.figures import Parts, RankFigures
from steptime.runs.record import RunRecord
from steptime.units import format_seconds

_FEW_ROWS = 12  # whose labels have two lines
_MOST_PARTS = 32


def _shown(page: Page) -> Mapping[str, Any]:
    rows = _parts_rows(page.subjects)
    parts = parts_of([entry for _, _, entry in rows])
    return {
        "parts_key": [(part.color, part.label) for part in parts],
        "axes": _axes(page.record) if page.single else [],
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

    Of its ranks those that the timeline holds, for of very many they stand for all; those that are
    alike share a row.
    """
    rows: list[tuple[str, str, Parts]] = [
        (one.name, format_seconds(one.entry.step_time_s.median), one.entry) for one in found
    ]
    if len(rows) > 1:
        return rows
    one = found[0]
    held: set[int] = set()
    if one.timeline is not None:
        held = set(one.timeline.steps_named(one.step)["rank"].tolist())
    ranks = [
        rank
        for rank in one.entry.ranks
        if not isnan(rank.compute_s) and (not held or rank.rank in held)
    ]
    same = alike(ranks, lambda rank: (format_seconds(rank.step_time_s), *_shown_parts(rank)))
    return rows + [
        (_named(group), format_seconds(group[0].step_time_s), group[0])
        for group in same[:_MOST_PARTS]
    ]


def _shown_parts(entry: Parts) -> tuple[str, ...]:
    """The parts as they are written: ranks of which all are the same have one bar."""
    return tuple(format_seconds(getattr(entry, part.field) or 0.0) for part in PARTS)


def _named(ranks: Sequence[RankFigures]) -> str:
    """Some ranks, and their host where they share it."""
    hosts = {rank.host for rank in ranks}
    where = f" on {ranks[0].host}" if len(hosts) == 1 and ranks[0].host else ""
    return ranks_text([rank.rank for rank in ranks]) + where


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


SECTION = Section("parts", 30, _shown)
