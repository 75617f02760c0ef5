"""From runs to their page: what each section shows, and the file."""

import shlex
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from steptime.report.about import byte_sources, sources
from steptime.report.bounds import bounds_of
from steptime.report.byte_matrix import matrix_figures
from steptime.report.calls import CallRow, call_table, has_kinds
from steptime.report.device_memory import memory_tables
from steptime.report.efficiency_tree import efficiency_tree
from steptime.report.figures import (
    MAX_BARS,
    axis,
    bytes_figure,
    curves,
    layout,
    loss_figure,
    parts_figure,
)
from steptime.report.link_use import link_figures
from steptime.report.palette import ORANGE, PARTS, SKY, phase_colors
from steptime.report.published import published_rows
from steptime.report.sentences import (
    bytes_sentence,
    doubt,
    facts,
    headline,
    headline_of_several,
    loss_sentence,
)
from steptime.report.side_by_side import TITLES, side_by_side
from steptime.report.subject import Run, Subject, subjects
from steptime.report.table import strategy_table
from steptime.report.template import write_html
from steptime.report.trace import Traced, traces
from steptime.runs.environment import Environment
from steptime.runs.figures import Parts, StepFigures
from steptime.runs.proxy_step import with_ranks
from steptime.runs.record import RunRecord, plain
from steptime.timeline import Timeline
from steptime.units import format_bytes, format_rate, format_seconds

_MOST_PARTS = 32
_RANKS_NAMED = 16


def write_report(path: Path, run: RunRecord, timeline: Timeline) -> None:
    """Write the page of a run to ``path``, atomically: one HTML file that needs no network.

    ``timeline``: the whole run.
    """
    whole = with_ranks(run, timeline)
    write_page(path, [Run(Path(run.run or path.parent).name, whole, timeline)])


def write_page(path: Path, runs: Sequence[Run]) -> None:
    """The same of one run or of several side by side, and of runs whose timeline is missing."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    # plotly.js is a script of its own package: autoescape would break it.
    plotly = Markup(get_plotlyjs())  # noqa: S704
    write_html(path, "report.html", context(runs) | {"plotly": plotly})


def context(runs: Sequence[Run]) -> dict[str, Any]:
    """What the template shows of some runs."""
    found = subjects(runs)
    strategies = {one.name: one.entry for one in found}
    single = len(runs) == 1
    run = runs[0].record
    ranks = run.place.world_size
    first = run.fastest if single else min(found, key=_step_s).name
    calls = {one.name: call_table(one) for one in found}
    shown = _traces(found)
    return {
        "run": run,
        "runs": [] if single else [_told(one) for one in runs],
        "title": f"{run.work.model} on {run.place.world_size} ranks"
        if single
        else f"{len(runs)} runs",
        "when": run.environment.time if single else "",
        "folder": run.run or runs[0].name,
        "incomplete": [f"{one.name}: {one.missing}" for one in runs if one.missing],
        "headline": headline(run) if single else headline_of_several(found),
        "doubt": doubt(run) if single else "",
        "facts": facts(run) if single else [],
        "several": len(found) > 1,
        "names": list(strategies),
        "first_shown": list(strategies).index(first),
        "source": sources(strategies.values()),
        "table": strategy_table(strategies),
        "summaries": {name: entry.summary for name, entry in strategies.items()},
        "published": published_rows(run) if single else [],
        "beside": side_by_side(run) if single else None,
        "beside_titles": TITLES,
        "bounds": bounds_of(run) if single else [],
        "parts_key": [(part.color, part.label) for part in PARTS],
        "axes": _axes(run) if single else [],
        "steps_key": [(one["color"], one["name"]) for one in phase_colors()[1:]],
        "traces": shown,
        "timeline_source": ", ".join(
            dict.fromkeys(one.timeline.source for one in runs if one.timeline is not None)
        ),
        "representatives": _representatives(found),
        "calls": [_call_lines(*calls[one.name]) for one in found],
        **_bytes_context(strategies, ranks),
        **_loss_context(strategies),
        "efficiency": efficiency_tree(found),
        "memory": memory_tables(found),
        "figures": _figures(found, strategies, calls),
        "environment": _environment(run.environment),
        "commands": [(one.name, shlex.join(one.record.environment.command)) for one in runs],
    }


def _step_s(subject: Subject) -> float:
    return subject.entry.step_time_s.median


def _told(run: Run) -> dict[str, str]:
    """A line of the table of runs."""
    record = run.record
    return {
        "name": run.name,
        "what": f"{record.verb} {record.work.model}",
        "ranks": f"{record.place.world_size:,}",
        "where": record.place.cluster or record.place.backend or "",
        "precision": record.work.precision or "",
        "when": record.environment.time,
    }


def _traces(found: Sequence[Subject]) -> list[Traced | None]:
    """The packed steps of each subject, None for one whose timeline holds none."""
    held = {one.name: (one.timeline, one.step) for one in found if one.timeline is not None}
    by_name = {one.name: one for one in traces(held)}
    return [by_name.get(one.name) for one in found]


def _figures(
    found: Sequence[Subject],
    strategies: Mapping[str, StepFigures],
    calls: Mapping[str, tuple[list[CallRow], int]],
) -> dict[str, Any]:
    figures = {
        "parts": parts_figure(_parts_rows(found)),
        "phases": phase_colors(),
        "step": _step_layout(),
        "links": link_figures(strategies, list(strategies)),
        "matrix": [matrix_figures(one, calls[one.name][0]) for one in found],
    }
    if any(e.bytes_received_per_rank for e in strategies.values()):
        figures["bytes"] = bytes_figure(strategies)
    if any(entry.loss for entry in strategies.values()):
        figures["loss"] = loss_figure(strategies)
    return figures


def _step_layout() -> dict[str, Any]:
    """The layout of the timeline, but for what depends on the step and what of it is in view."""
    return layout(
        400,
        dragmode="zoom",
        hovermode=False,
        xaxis=axis("ms from the step’s begin", fixedrange=False),
        yaxis=axis(showgrid=False, ticklabelstandoff=4),
    )


def _bytes_context(strategies: Mapping[str, StepFigures], ranks: int) -> dict[str, Any]:
    known = any(entry.bytes_received_per_rank for entry in strategies.values())
    return {
        "bytes_sentence": bytes_sentence(strategies) if known else "",
        "byte_source": byte_sources(strategies.values()),
        "bytes_shown": MAX_BARS if ranks > MAX_BARS else 0,
        "world_size": ranks,
        "wire": any(e.wire_bytes_received_per_rank for e in strategies.values()),
        "bytes_key": [(ORANGE, "rank 0"), (SKY, "the other ranks, in order")],
    }


def _loss_context(strategies: Mapping[str, StepFigures]) -> dict[str, Any]:
    trained = {name: entry for name, entry in strategies.items() if entry.loss}
    return {
        "curves": curves(trained) if trained else [],
        "loss_sentence": loss_sentence(trained) if trained else "",
    }


def _call_lines(rows: Sequence[CallRow], left_out: int) -> dict[str, Any]:
    """The table of calls as text."""
    lines = [
        {
            "name": row.name,
            "kind": row.kind or "–",
            "group": f"{row.group} " * bool(row.group)
            + (f"{row.members:,}" if row.members else ""),
            "bytes": format_bytes(row.nbytes) if row.nbytes else "–",
            "calls": f"{row.calls:,.1f}".removesuffix(".0"),
            "time": format_seconds(row.seconds),
            "algbw": format_rate(row.algbw) if row.algbw else "–",
            "busbw": format_rate(row.busbw) if row.busbw else "–",
            "share": _percent(row.share),
            "exposed": _percent(row.exposed),
        }
        for row in rows
    ]
    return {"rows": lines, "left_out": left_out, "kinds": has_kinds(rows)}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


def _axes(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """What a proxy's step is spent on, axis by axis: mean of ranks, slowest, and under way."""
    under_way = run.under_way
    return [
        (
            f"waiting for {what}" if what in under_way else what,
            format_seconds(of.mean_s),
            format_seconds(of.max_s),
            format_seconds(under_way[what]) if what in under_way else "",
        )
        for what, of in run.phases.items()
        if of.max_s
    ]


def _representatives(found: Sequence[Subject]) -> str:
    """Which ranks a timeline holds, where it does not hold all."""
    for one in found:
        if one.timeline is None:
            continue
        held = np.unique(one.timeline.steps_named(one.step)["rank"])
        count = len(one.entry.ranks)
        if 0 < len(held) < count:
            ranks = ", ".join(f"{rank:,}" for rank in held[:_RANKS_NAMED].tolist())
            return (
                f"Of {count:,} ranks the timeline holds {len(held)}, one of each "
                f"kind of work: {ranks}{' …' * (len(held) > _RANKS_NAMED)}."
            )
    return ""


def _parts_rows(found: Sequence[Subject]) -> list[tuple[str, str, Parts]]:
    """A row a strategy; of one strategy alone its ranks too, so that a slow one stands out.

    Of its ranks those that the timeline holds: of very many they stand for all.
    """
    rows: list[tuple[str, str, Parts]] = [
        (one.name, format_seconds(_step_s(one)), one.entry) for one in found
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
    return rows + [
        (
            f"rank {rank.rank}" + f" on {rank.host}" * bool(rank.host),
            format_seconds(rank.step_time_s),
            rank,
        )
        for rank in ranks[:_MOST_PARTS]
    ]


def _environment(environment: Environment) -> list[tuple[str, str]]:
    """Label and value of everything the figures depend on but the command, which stands apart."""
    flat: list[tuple[str, str]] = []
    for name, value in plain(environment).items():
        if name == "command":
            continue
        entries = value.items() if isinstance(value, Mapping) else [(name, value)]
        flat += [(str(key).replace("_", " "), str(item)) for key, item in entries if item]
    return flat
