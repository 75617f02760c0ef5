"""Bytes into each rank: by its calls or its messages, and on the wire where that was measured."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from steptime.report.about import byte_sources
from steptime.report.figures import Figure, axis, label, layout, rows_axis
from steptime.report.palette import ORANGE, SKY
from steptime.report.section import Page, Section
from steptime.runs.figures import StepFigures
from steptime.units import format_bytes

_Mark: TypeAlias = tuple[float, int, str]  # where, how many bytes, and what they are

MAX_BARS = 32  # a strategy: what the eye tells apart
_GROUP = 0.76  # of the height of a strategy: what its bars fill


def _shown(page: Page) -> Mapping[str, Any] | None:
    strategies, ranks = page.strategies, page.record.place.world_size
    if not any(entry.bytes_received_per_rank for entry in strategies.values()):
        return None
    return {
        "bytes_sentence": bytes_sentence(strategies),
        "byte_source": byte_sources(strategies.values()),
        "bytes_shown": MAX_BARS if ranks > MAX_BARS else 0,
        "world_size": ranks,
        "bytes_key": [(ORANGE, "rank 0"), (SKY, "the other ranks, in order")],
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


SECTION = Section("bytes", 140, _shown)
