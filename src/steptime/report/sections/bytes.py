"""Bytes into each rank: by its calls or its messages, and on the wire where that was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steptime.report.about import byte_sources
from steptime.report.alike import alike, ranks_text
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import ORANGE, SKY
from steptime.report.section import Page, Section
from steptime.runs.figures import StepFigures
from steptime.units import format_bytes

MAX_BARS = 32  # a strategy: what the eye tells apart
_GROUP = 0.76  # of the height of a strategy: what its bars fill


def _shown(page: Page) -> Mapping[str, Any] | None:
    strategies = page.strategies
    if not any(entry.bytes_received_per_rank for entry in strategies.values()):
        return None
    most = max(
        len(alike(entry.bytes_received_per_rank, lambda count: count))
        for entry in strategies.values()
    )
    return {
        "bytes_sentence": bytes_sentence(strategies),
        "byte_source": byte_sources(strategies.values()),
        "bytes_shown": MAX_BARS * (most > MAX_BARS),
        "bytes_key": [(ORANGE, "rank 0"), (SKY, "the other ranks, those that are alike in one")],
        "figures": {"bytes": bytes_figure(strategies)},
    }


def bytes_sentence(strategies: Mapping[str, StepFigures]) -> str:
    """Into which rank the most bytes go, and under which strategy."""
    busiest = {n: max(e.bytes_received_per_rank) for n, e in strategies.items()}
    most, least = max(busiest, key=busiest.__getitem__), min(busiest, key=busiest.__getitem__)
    received = strategies[most].bytes_received_per_rank
    even = min(received) == max(received)
    rank = "every rank" if even else f"rank {received.index(busiest[most])}"
    sentence = f"{most} puts {format_bytes(busiest[most])} into {rank} in every step"
    if busiest[most] == busiest[least]:
        return f"{sentence}."
    return f"{sentence}; {least} no more than {format_bytes(busiest[least])} into any rank."


def bytes_figure(strategies: Mapping[str, StepFigures]) -> Figure:
    """Bytes into each rank in one step: a group of bars a strategy, a bar a rank, rank 0 apart.

    Ranks that are alike have one bar; of many bars the first MAX_BARS are shown.
    """
    received = _marks(strategies, wire=False)
    first = [mark for mark in received if mark.ranks == [0]]
    others = [mark for mark in received if mark.ranks != [0]]
    wire = _marks(strategies, wire=True)
    most = round(_GROUP / min(mark.thickness for mark in received))
    group_height = max(34, min(13 * most, 120))  # pixels
    line = {"color": "--paper", "width": 1 if most <= 16 else 0}
    sizes = [group_height * mark.thickness / 1.4 for mark in wire]
    tick = {"symbol": "line-ns", "size": sizes}
    name = {"name": byte_sources(strategies.values())}
    data = [
        _bars(first) | name | {"marker": {"color": ORANGE, "line": line}},
        _bars(others) | name | {"marker": {"color": SKY, "line": line}},
        _byte_marks(wire)
        | {"type": "scatter", "mode": "markers", "name": "measured"}
        | {"marker": tick | {"line": {"color": "--ink", "width": 2 if most <= 16 else 1}}},
    ]
    return {
        "data": data,
        "layout": layout(
            64 + len(strategies) * group_height,
            barmode="overlay",
            xaxis=axis("bytes a step", rangemode="tozero", tickformat="~s") | {"ticksuffix": "B"},
            yaxis=rows_axis([label(name) for name in strategies], ticklabelstandoff=8),
        ),
    }


@dataclass(frozen=True)
class _Mark:
    """Where ranks that are alike stand, how thick, and what they receive."""

    ranks: list[int]
    place: float
    thickness: float
    count: int
    text: str


def _marks(strategies: Mapping[str, StepFigures], *, wire: bool) -> list[_Mark]:
    """The marks of each strategy; on the ``wire`` nothing where that was not measured."""
    found = []
    for group, (name, entry) in enumerate(strategies.items()):
        counts = entry.wire_bytes_received_per_rank if wire else entry.bytes_received_per_rank
        bars = _alike(entry) if counts else []
        for at, ranks in enumerate(bars):
            place = group + _GROUP * ((at + 0.5) / len(bars) - 0.5)
            each = "receives" if len(ranks) == 1 else "receive each"
            text = f"<b>{label(name)}</b><br>{ranks_text(ranks)} {each}"
            found.append(_Mark(ranks, place, _GROUP / len(bars), (counts or [])[ranks[0]], text))
    return found


def _alike(entry: StepFigures) -> list[list[int]]:
    """The ranks of each bar."""
    needed, wire = entry.bytes_received_per_rank, entry.wire_bytes_received_per_rank
    same = alike(
        range(len(needed)), lambda rank: (needed[rank], format_bytes(wire[rank]) if wire else "")
    )
    return same[:MAX_BARS]


def _bars(marks: Sequence[_Mark]) -> Figure:
    widths = {"width": [mark.thickness for mark in marks]}
    return _byte_marks(marks) | widths | {"type": "bar", "orientation": "h"}


def _byte_marks(marks: Sequence[_Mark]) -> Figure:
    return {
        "y": [round(mark.place, 4) for mark in marks],
        "x": [mark.count for mark in marks],
        "customdata": [[mark.text, format_bytes(mark.count)] for mark in marks],
        "hovertemplate": "%{customdata[0]} %{customdata[1]}<extra>%{fullData.name}</extra>",
    }


SECTION = Section("bytes", 140, _shown)
