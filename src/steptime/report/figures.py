"""The figures of a run that need no timeline, as plotly.js figures: parts, loss, bytes.

A colour that starts with ``--`` is a CSS variable of the page, resolved when the figure is drawn,
so that one figure serves light, dark and print.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from steptime.report.about import byte_sources
from steptime.report.palette import CURVES, DASHES, ORANGE, PARTS, SKY
from steptime.runs.figures import Parts, StepFigures
from steptime.units import format_bytes, format_seconds

Figure: TypeAlias = dict[str, Any]
_Mark: TypeAlias = tuple[float, int, str]  # where, how many bytes, and what they are

_STRIPE = 10  # pixels
_FEW_ROWS = 12  # whose labels have two lines
_AGREE = 1e-3  # relative
MAX_BARS = 32  # a strategy: what the eye tells apart
_GROUP = 0.76  # of the height of a strategy: what its bars fill


@dataclass(frozen=True)
class Curve:
    """How the loss of one strategy is drawn; ``dash`` is an SVG dash array or ``solid``."""

    strategy: str
    color: str
    dash: str


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


def parts_figure(rows: Sequence[tuple[str, str, Parts]]) -> Figure:
    """Stacked bars of the parts of a step; a row is its name, a note below it, and its parts."""
    data = []
    for part in PARTS:
        seconds = [getattr(parts, part.field) for _, _, parts in rows]
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


def loss_spread(strategies: Mapping[str, StepFigures]) -> float:
    """The largest relative distance between two strategies' losses at the same step.

    Steps that not all strategies took do not count; a loss that is not finite is infinitely far.
    """
    spread = 0.0
    for losses in zip(*(entry.loss for entry in strategies.values()), strict=False):
        low, high = min(losses), max(losses)
        if not all(math.isfinite(loss) for loss in losses):
            return math.inf
        if high > low:
            spread = max(spread, (high - low) / max(abs(low), abs(high)))
    return spread


def losses_agree(strategies: Mapping[str, StepFigures]) -> bool:
    """Whether all loss curves lie on one another, within a thousandth."""
    return loss_spread(strategies) <= _AGREE


def curves(strategies: Mapping[str, StepFigures]) -> list[Curve]:
    """Colour and dashes of every strategy's loss.

    Curves that lie on one another share the line out: each is drawn in the gaps of the others.
    """
    count = len(strategies)
    striped = count > 1 and losses_agree(strategies)
    drawn = []
    for index, name in enumerate(strategies):
        after = (count - 1 - index) * _STRIPE
        stripe = f"0px,{index * _STRIPE}px,{_STRIPE}px,{after}px"
        dash = stripe if striped else DASHES[index % len(DASHES)]
        drawn.append(Curve(name, CURVES[index % len(CURVES)], dash))
    return drawn


def loss_figure(strategies: Mapping[str, StepFigures]) -> Figure:
    """The training loss over the steps, one curve a strategy."""
    data = []
    for curve in curves(strategies):
        losses = strategies[curve.strategy].loss
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(losses) > 1 else "markers",
                "name": label(curve.strategy),
                "x": list(range(1, len(losses) + 1)),
                "y": [float(f"{loss:.6g}") if math.isfinite(loss) else None for loss in losses],
                "line": {"color": curve.color, "dash": curve.dash, "width": 3.5},
                "hovertemplate": "%{fullData.name} %{y:.4f}<extra></extra>",
            }
        )
    return {
        "data": data,
        "layout": layout(
            320,
            hovermode="x unified",
            xaxis=axis("step", rangemode="tozero", hoverformat="d", showgrid=False),
            yaxis=axis("loss"),
        ),
    }


def bytes_figure(strategies: Mapping[str, StepFigures]) -> Figure:
    """Bytes into each rank in one step: a group of bars a strategy, a bar a rank, rank 0 apart.

    Of many ranks the first MAX_BARS are shown.
    """
    most = max(len(entry.bytes_received_per_rank) for entry in strategies.values())
    ranks = min(most, MAX_BARS)
    thickness = _GROUP / ranks
    group_height = max(34, min(13 * ranks, 120))  # pixels
    received = _marks_by_rank(strategies, "bytes_received_per_rank", ranks)
    wire = _marks_by_rank(strategies, "wire_bytes_received_per_rank", ranks)
    first = [mark for rank, mark in received if rank == 0]
    others = [mark for rank, mark in received if rank > 0]
    bars = {"type": "bar", "orientation": "h", "width": thickness}
    line = {"color": "--paper", "width": 1 if ranks <= 16 else 0}
    tick = {"symbol": "line-ns", "size": group_height * thickness / 1.4}
    name = {"name": byte_sources(strategies.values())}
    data = [
        _byte_marks(first) | bars | name | {"marker": {"color": ORANGE, "line": line}},
        _byte_marks(others) | bars | name | {"marker": {"color": SKY, "line": line}},
        _byte_marks([mark for _, mark in wire])
        | {"type": "scatter", "mode": "markers", "name": "measured"}
        | {"marker": tick | {"line": {"color": "--ink", "width": 2 if ranks <= 16 else 1}}},
    ]
    return {
        "data": data,
        "layout": layout(
            64 + len(strategies) * group_height,
            barmode="overlay",
            xaxis=axis("bytes into a rank, a step", rangemode="tozero", tickformat="~s")
            | {"ticksuffix": "B"},
            yaxis=rows_axis([label(name) for name in strategies], ticklabelstandoff=8),
        ),
    }


def _marks_by_rank(
    strategies: Mapping[str, StepFigures], field: str, ranks: int
) -> list[tuple[int, _Mark]]:
    """Each rank and its mark, strategy by strategy; nothing where ``field`` was not measured."""
    return [
        (
            rank,
            (
                group + _GROUP * ((rank + 0.5) / ranks - 0.5),
                count,
                f"<b>{label(name)}</b><br>rank {rank} receives",
            ),
        )
        for group, (name, entry) in enumerate(strategies.items())
        for rank, count in enumerate((getattr(entry, field) or ())[:ranks])
    ]


def _byte_marks(marks: Sequence[_Mark]) -> Figure:
    return {
        "y": [round(place, 4) for place, _, _ in marks],
        "x": [count for _, count, _ in marks],
        "customdata": [[text, format_bytes(count)] for _, count, text in marks],
        "hovertemplate": "%{customdata[0]} %{customdata[1]}<extra>%{fullData.name}</extra>",
    }
