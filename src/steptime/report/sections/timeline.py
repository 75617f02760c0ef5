"""One step, rank by rank: the timelines that the page carries, and which ranks stand for all."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from steptime.report.figures import Figure, axis, layout
from steptime.report.palette import phase_colors
from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.report.trace import Traced, traces
from steptime.timeline import Phase

_RANKS_NAMED = 16


def _shown(page: Page) -> Mapping[str, Any]:
    return {
        "traces": _traces(page.subjects),
        "representatives": _representatives(page.subjects),
        "steps_key": _steps_key(page.subjects),
        "figures": {"phases": phase_colors(), "step": _step_layout()},
    }


def _traces(found: Sequence[Subject]) -> list[Traced | None]:
    """The packed steps of each subject, None for one whose timeline holds none."""
    held = {one.name: (one.timeline, one.step) for one in found if one.timeline is not None}
    by_name = {one.name: one for one in traces(held, {one.name: one.entry for one in found})}
    return [by_name.get(one.name) for one in found]


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
                f"kind of work: {ranks}{' …' * (len(held) > _RANKS_NAMED)}. "
                "Its rows are named for all ranks with the same figures."
            )
    return ""


def _steps_key(found: Sequence[Subject]) -> list[tuple[str, str]]:
    """Colour and name of each phase within a step; of faults where there are any."""
    lines = [one.timeline.intervals["phase"] for one in found if one.timeline is not None]
    faulty = any((phases == Phase.FAULT).any() for phases in lines)
    shown = [*Phase][1:] if faulty else [*Phase][1 : Phase.FAULT]
    colors = phase_colors()
    return [(colors[phase]["color"], colors[phase]["name"]) for phase in shown]


def _step_layout() -> Figure:
    """The layout of the timeline, but for what depends on the step and what of it is in view."""
    return layout(
        400,
        dragmode="zoom",
        hovermode=False,
        xaxis=axis("ms from the step’s begin", fixedrange=False),
        yaxis=axis(showgrid=False, ticklabelstandoff=4),
    )


SECTION = Section("timeline", 60, _shown)
