"""The figure of how busy each link is over a step: links down, time across."""

from collections.abc import Mapping, Sequence
from typing import Any

from steptime.report.alike import alike
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import VERMILLION
from steptime.report.section import Page, Section
from steptime.runs.figures import LinkUse, StepFigures

_ROW = 18  # pixels
_LONGEST_NAME = 40
_FULL = 1.005  # above is more than rounding


def link_figures(
    strategies: Mapping[str, StepFigures], names: Sequence[str]
) -> list[Figure | None]:
    """A heat map for each of the strategies ``names``; None where its links are not known.

    Beside ``data`` and ``layout`` a figure has ``note``, the sentence that says what is shown.
    """
    return [_figure(name, strategies[name].link_use) for name in names]


OVERBOOKED = (
    "Some links would have to carry more than they can: what is under way at once does not share "
    "them at collective fidelity, so the step is too short; --fidelity message is right there."
)


def overbooked(use: LinkUse | None) -> bool:
    """Whether a link carries more in a step than it can."""
    return bool(use and use.links and max(use.utilisation[0]) > _FULL)


def _figure(name: str, use: LinkUse | None) -> Figure | None:
    if not use or not use.links:
        return None
    width, begin = 1e3 * use.bin_s, 1e3 * use.begin_s
    bins = len(use.utilisation[0])
    shown = [begin, begin + width * bins]
    same = alike(zip(use.links, use.utilisation, strict=True), _course)
    links = [label(_short(group[0][0], len(group))) for group in same]
    return {
        "data": [
            {
                "type": "heatmap",
                "z": [group[0][1] for group in same],
                "x0": begin + width / 2,
                "dx": width,
                "y0": 0,
                "dy": 1,
                "zmin": 0,
                "zmax": 1,
                # No fill where a link is idle: the page's own ground shows, light or dark.
                "colorscale": [[0, "rgba(213, 94, 0, 0)"], [1, VERMILLION]],
                "ygap": 1,
                "customdata": [[link] * bins for link in links],
                "hovertemplate": "<b>%{customdata}</b><br>%{z:.0%} busy"
                + " at %{x:.3~f} ms" * (bins > 1)
                + "<extra></extra>",
                "colorbar": {
                    "tickformat": ".0%",
                    "tickvals": [0, 0.5, 1],
                    "thickness": 10,
                    "outlinewidth": 0,
                },
            }
        ],
        "layout": layout(
            76 + _ROW * max(4, len(links)),
            xaxis=axis("ms from the step's begin", range=shown, showgrid=False)
            if bins > 1
            else axis(range=shown, showgrid=False, showticklabels=False),
            yaxis=rows_axis(links, ticklabelstandoff=6),
        ),
        "note": _note(name, use),
    }


def _note(name: str, use: LinkUse) -> str:
    when = "over time" if len(use.utilisation[0]) > 1 else "on average"
    note = f"How much of each link's bandwidth a step of {name} uses, {when}."
    if overbooked(use):
        note += f" {OVERBOOKED}"
    pairs = zip(use.links, use.utilisation, strict=True)
    if len(alike(pairs, _course)) < len(use.links):
        note += " Links that are used alike share a row: +3 are three more like it."
    if use.left_out:
        note += (
            f" The busiest {len(use.links)} links are shown, and {use.left_out:,} that carry "
            "something are left out."
        )
    return note


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
    found = link_figures(page.strategies, list(page.strategies))
    return {"figures": {"links": found}} if any(found) else None


SECTION = Section("links", 100, _shown)
