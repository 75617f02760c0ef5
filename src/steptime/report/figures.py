"""What the figures of plotly.js on all pages share: their layout, axes and labels.

A colour that starts with ``--`` is a CSS variable of the page, resolved when the figure is drawn,
so that one figure serves light, dark and print.
"""

import html
from collections.abc import Sequence
from typing import Any, TypeAlias

Figure: TypeAlias = dict[str, Any]


def label(text: str) -> str:
    """Text that plotly.js, which reads a little HTML in labels, shows as it is."""
    return html.escape(text, quote=False)


def layout(height: int, **more: Any) -> Figure:
    """The layout that all figures share; ``height`` is in pixels."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 12, "t": 6, "b": 44},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "--soft"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {
            "bgcolor": "--paper",
            "bordercolor": "--line",
            "align": "left",
            "font": {"color": "--ink"},
        },
        "showlegend": False,
        "dragmode": False,
    } | more


def axis(title: str = "", **more: Any) -> Figure:
    """An axis that does not zoom, with a quiet grid."""
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 12}},
        "fixedrange": True,
        "automargin": True,
        "gridcolor": "--line",
        "zeroline": False,
        "linecolor": "--line",
    } | more


def rows_axis(labels: Sequence[str], **more: Any) -> Figure:
    """A vertical axis with one label at each of the rows 0, 1, 2 …, first row on top."""
    return axis(
        tickvals=list(range(len(labels))),
        ticktext=list(labels),
        tickfont={"color": "--ink"},
        range=[len(labels) - 0.5, -0.5],
        showgrid=False,
        **more,
    )
