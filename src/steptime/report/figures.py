"""What the figures of plotly.js on all pages share: their layout, axes and labels.

A colour that starts with ``--`` is a CSS variable of the page, resolved when the figure is drawn,
so that one figure serves light, dark and print.
"""

import html
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, TypeAlias

Figure: TypeAlias = dict[str, Any]

_FAR = 3.0  # from which ratio on a logarithmic axis has ticks enough at 1, 2 and 5
_FINER = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)


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


def logarithmic(title: str, values: Sequence[float]) -> Figure:
    """A logarithmic axis for values above 0, with few ticks at round numbers."""
    low, high = min(values) / 1.25, max(values) * 1.25
    digits = (1, 2, 5) if max(values) / min(values) >= _FAR else _FINER
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    shown = [tick for tick in ticks if low <= tick <= high]
    return axis(
        title,
        type="log",
        range=[log10(low), log10(high)],
        tickvals=shown,
        ticktext=[f"{tick:,.6g}" for tick in shown],
    )


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
