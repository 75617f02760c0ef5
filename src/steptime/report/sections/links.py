"""The figure of how busy each link is over a step: links down, time across.

Where calls were simulated and no messages, nobody knows that: it is what ranks send, by axis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.report.alike import alike
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import VERMILLION
from steptime.report.section import Page, Section
from steptime.report.sending import Sending, sending_of
from steptime.report.subject import Subject
from steptime.runs.figures import LinkUse
from steptime.units import format_rate

_ROW, _HIGH_ROW = 18, 34  # pixels: of a line, and of two
_LONGEST_NAME = 40
_FULL = 1.005  # above is more than rounding
_STEADY = 0.005  # use that varies by less does not vary
_HARDLY = 0.001  # of the bytes: an axis that sends less has no row
_MOST_TOLD = 3


def link_figures(subjects: Sequence[Subject]) -> list[Figure | None]:
    """A heat map for each subject; None where nothing is known of its links.

    Beside ``data`` and ``layout`` a figure has ``note``, the sentences that say what is shown;
    where nothing varies over the step they are all there is.
    """
    return [_figure(one) for one in subjects]


OVERBOOKED = (
    "Some links would have to carry more than they can: what is under way at once does not share "
    "them at collective fidelity, so the step is too short; --fidelity message is right there."
)


def overbooked(use: LinkUse | None) -> bool:
    """Whether a link carries more in a step than it can."""
    return bool(use and use.links and max(use.utilisation[0]) > _FULL)


def _figure(subject: Subject) -> Figure | None:
    use = subject.entry.link_use
    if not use or not use.links:
        return None
    if len(use.utilisation[0]) > 1:
        return _over_time(subject.name, use)
    sending = sending_of(subject)
    average = _on_average(use)
    if sending is None:
        return {"note": f"{average} {_UNKNOWN.format('')}"}
    seen, hardly = _told_apart(sending)
    few = f". Not shown is less than 0.1\u00a0%, along {', '.join(hardly)}" if hardly else ""
    return _of_axes(seen) | {"note": f"{average} {_UNKNOWN.format(_SPREAD + few)}"}


def _told_apart(sending: Sending) -> tuple[Sending, list[str]]:
    """What is sent along axes that count, and the axes that hardly do."""
    parts = sending.rates.sum(axis=1) / sending.rates.sum()
    count = max(1, int((parts >= _HARDLY).sum()))
    seen = replace(sending, axes=sending.axes[:count], rates=sending.rates[:count])
    return seen, sending.axes[count:]


def _over_time(name: str, use: LinkUse) -> Figure:
    """How busy each link is whose use varies."""
    width, begin = 1e3 * use.bin_s, 1e3 * use.begin_s
    pairs = list(zip(use.links, use.utilisation, strict=True))
    varied = [(link, course) for link, course in pairs if max(course) - min(course) > _STEADY]
    note = _note(name, use, varied)
    if not varied:
        return {"note": note}
    same = alike(varied, _course)
    links = [label(_short(group[0][0], len(group))) for group in same]
    table = np.array([group[0][1] for group in same])
    hover = "%{z:.0%} busy"
    colorbar = {"tickformat": ".0%", "tickvals": [0, 0.5, 1]}
    heat = _heat_map(table, begin + width / 2, width, links, hover) | {
        "colorbar": colorbar | {"thickness": 10, "outlinewidth": 0}
    }
    height = 76 + _ROW * max(4, len(links))
    return {"data": [heat], "layout": _layout(height, begin, width, table, links), "note": note}


def _of_axes(sending: Sending) -> Figure:
    """What a rank sends along each axis, every axis in parts of its own most."""
    most = sending.rates.max(axis=1)
    width = 1e3 * sending.width
    names = [label(axis) for axis in sending.axes]
    heat = _heat_map(
        np.round(sending.rates / most[:, None], 3), width / 2, width, names, "%{text} sent"
    ) | {"text": [[format_rate(rate) for rate in of] for of in sending.rates], "showscale": False}
    told = [
        f"{name}<br><b>{format_rate(of)}</b> at most"
        for name, of in zip(names, most.tolist(), strict=True)
    ]
    height = 76 + _HIGH_ROW * max(2, len(names))
    return {"data": [heat], "layout": _layout(height, 0.0, width, sending.rates, told)}


def _heat_map(
    table: Floats, first_ms: float, width_ms: float, names: Sequence[str], hover: str
) -> Figure:
    """Rows of ``table``, shape (rows, bins), whose values are parts of a whole."""
    return {
        "type": "heatmap",
        "z": table.tolist(),
        "x0": first_ms,
        "dx": width_ms,
        "y0": 0,
        "dy": 1,
        "zmin": 0,
        "zmax": 1,
        # No fill where nothing is sent: the page's own ground shows, light or dark.
        "colorscale": [[0, "rgba(213, 94, 0, 0)"], [1, VERMILLION]],
        "ygap": 1,
        "customdata": [[name] * table.shape[1] for name in names],
        "hovertemplate": f"<b>%{{customdata}}</b><br>{hover} at %{{x:.3~f}} ms<extra></extra>",
    }


def _layout(
    height: int, begin_ms: float, width_ms: float, table: Floats, names: Sequence[str]
) -> Figure:
    shown = [begin_ms, begin_ms + width_ms * table.shape[1]]
    return layout(
        height,
        xaxis=axis("ms from the step's begin", range=shown, showgrid=False),
        yaxis=rows_axis(names, ticklabelstandoff=6),
    )


_UNKNOWN = "At fidelity collective no message is simulated, so nobody knows when a link is used{}."

_SPREAD = (
    ": below is what a rank sends along each axis, mean of the ranks, with the bytes of each call "
    "spread evenly from when its last rank came until its end"
)


def _on_average(use: LinkUse) -> str:
    """What part of the busiest links a step uses, links of the same use together."""
    groups = alike(zip(use.links, use.utilisation, strict=True), _course)
    told = [
        f"{100 * group[0][1][0]:.0f}\u00a0% of {group[0][0]}"
        + f" and {len(group) - 1} like it" * (len(group) > 1)
        for group in groups[:_MOST_TOLD]
    ]
    text = f"On average the step uses of the bandwidth {', '.join(told)}"
    text += f", and less of {use.left_out:,} more" * bool(use.left_out)
    return f"{text}." + f" {OVERBOOKED}" * overbooked(use)


def _note(name: str, use: LinkUse, varied: Sequence[tuple[str, Sequence[float]]]) -> str:
    note = f"How much of each link's bandwidth a step of {name} uses, over time."
    if overbooked(use):
        note += f" {OVERBOOKED}"
    note += _like(alike(varied, _course))
    if len(varied) < len(use.links):
        note += f" {len(use.links) - len(varied)} whose use does not vary are not shown."
    if use.left_out:
        note += (
            f" The busiest {len(use.links)} links are shown, and {use.left_out:,} that carry "
            "something are left out."
        )
    return note


def _like(groups: Sequence[Sequence[Any]]) -> str:
    """What the names of groups mean, where any has more than one link."""
    many = any(len(group) > 1 for group in groups)
    return " Links that are used alike stand together: +3 are three more like it." * many


def _course(link: tuple[str, Sequence[float]]) -> tuple[float, ...]:
    """What a link's use looks like: links of which it is the same have one row."""
    return tuple(round(part, 2) for part in link[1])


def _short(name: str, count: int) -> str:
    """A name that leaves room for the figure: its middle goes; and how many are like it."""
    others = f" +{count - 1}" * (count > 1)
    if len(name) > _LONGEST_NAME:
        half = _LONGEST_NAME // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return f"{name}{others}"


def _shown(page: Page) -> Mapping[str, Any] | None:
    found = link_figures(page.subjects)
    return {"figures": {"links": found}} if any(found) else None


SECTION = Section("links", 100, _shown)
