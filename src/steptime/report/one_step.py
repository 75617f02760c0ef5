"""The figure of one step: what every rank computes and communicates, and when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.report.figures import Figure, axis, label, layout
from steptime.report.palette import PARTS
from steptime.timeline import Phase, Timeline
from steptime.units import format_bytes, format_seconds

MAX_RANKS = 32
MAX_INTERVALS = 5000  # of one figure: more would make the page heavy and the bars too thin to see

_MANY = 1500  # intervals
_BESIDE = 0.04  # of the step: what is shown before its begin and after its end
_GAP = 0.45  # rows between two ranks
_STREAMS = ("compute", "comm")


@dataclass(frozen=True)
class _Window:
    """One step of one strategy: the STEP interval of every rank, shape (ranks,)."""

    steps: NDArray[np.void]
    number: int  # of how many
    count: int

    @property
    def start(self) -> float:
        return float(self.steps["start"].min())

    @property
    def length(self) -> float:
        return float(self.steps["end"].max()) - self.start


def step_figures(timeline: Timeline, strategies: Iterable[str]) -> dict[str, Figure]:
    """A figure of one step of every strategy that the timeline holds, by strategy.

    The median one of those measured; of those simulated the last, which is in the steady state.

    Beside ``data`` and ``layout`` a figure has ``note``, the sentence that says what is shown.
    """
    chosen = _last_step if timeline.source == "simulated" else _median_step
    windows = {name: chosen(timeline.steps_named(name)) for name in strategies}
    return {name: _figure(timeline, name, w) for name, w in windows.items() if w is not None}


def _median_step(steps: NDArray[np.void]) -> _Window | None:
    """The step whose time, first rank's begin to last rank's end, is the (lower) median."""
    table = _by_rank(steps)
    if table is None:
        return None
    length = table["end"].max(axis=0) - table["start"].min(axis=0)
    return _window(table, int(np.argsort(length, kind="stable")[(len(length) - 1) // 2]))


def _last_step(steps: NDArray[np.void]) -> _Window | None:
    table = _by_rank(steps)
    return None if table is None else _window(table, table.shape[1] - 1)


def _by_rank(steps: NDArray[np.void]) -> NDArray[np.void] | None:
    """The steps that all ranks have, shape (ranks, steps)."""
    if not len(steps):
        return None
    own = [steps[steps["rank"] == rank] for rank in np.unique(steps["rank"])]
    count = min(len(rows) for rows in own)
    return np.stack([rows[:count] for rows in own])


def _window(table: NDArray[np.void], step: int) -> _Window:
    return _Window(table[:, step], step + 1, table.shape[1])


def _figure(timeline: Timeline, name: str, window: _Window) -> Figure:
    beside = _BESIDE * window.length
    start, end = window.start - beside, window.start + window.length + beside
    part = timeline.between(start, end)
    rows = part.intervals[part.intervals["phase"] != Phase.STEP]
    streams = _streams_in_order(timeline, rows)
    ranks = _ranks_shown(window.steps["rank"], rows)
    rows = rows[np.isin(rows["rank"], ranks)]
    place, thickness = _places(rows, ranks, streams)
    pitch = float(np.clip(720 / max(1, len(ranks) * len(streams)), 12, 26))  # pixels a row
    height = len(ranks) * (len(streams) + _GAP)
    return {
        "data": _traces(timeline, rows, window, (start, end), place, thickness),
        "layout": layout(
            round(64 + pitch * height),
            barmode="overlay",
            dragmode="zoom",
            uniformtext={"mode": "hide", "minsize": 9},
            shapes=[
                _band(step, ranks, len(streams), window)
                for step in window.steps[np.isin(window.steps["rank"], ranks)]
            ],
            xaxis=axis("ms from the step's begin", fixedrange=False)
            | {"range": [-1e3 * beside, 1e3 * (end - window.start)]},
            yaxis=_rank_axis(ranks, [timeline.streams[stream] for stream in streams], pitch),
        ),
        "note": _note(timeline, name, window, len(ranks)),
    }


def _streams_in_order(timeline: Timeline, rows: NDArray[np.void]) -> list[int]:
    """Streams that hold any of ``rows``: compute, comm right beneath it, then the others."""
    used = [int(stream) for stream in np.unique(rows["stream"])]
    known = [s for want in _STREAMS for s in used if timeline.streams[s] == want]
    return known + [stream for stream in used if stream not in known]


def _ranks_shown(ranks: NDArray[np.int32], rows: NDArray[np.void]) -> NDArray[np.int32]:
    """The first ranks, as many as a reader can tell apart and a page can hold; at least one."""
    ranks = ranks[:MAX_RANKS]
    held = np.cumsum([np.count_nonzero(rows["rank"] == rank) for rank in ranks])
    return ranks[: max(1, int(np.searchsorted(held, MAX_INTERVALS, side="right")))]


def _places(
    rows: NDArray[np.void], ranks: NDArray[np.int32], streams: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vertical centre and thickness of every interval, shape (rows,) both.

    Intervals of one rank and stream that overlap share the thickness of their row.
    """
    place, thickness = np.zeros(len(rows)), np.ones(len(rows))
    for at, rank in enumerate(ranks):
        for row, stream in enumerate(streams):
            mine = np.flatnonzero((rows["rank"] == rank) & (rows["stream"] == stream))
            lanes = _lanes(rows[mine])
            each = 0.86 / (lanes.max(initial=0) + 1)
            top = at * (len(streams) + _GAP) + row + 0.07
            place[mine] = top + (lanes + 0.5) * each
            thickness[mine] = each
    return place, thickness


def _lanes(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """A lane for every row, shape (rows,), such that rows of one lane do not overlap."""
    lanes = np.zeros(len(rows), dtype=np.int64)
    ends: list[float] = []
    for index in np.argsort(rows["start"], kind="stable"):
        start, end = rows["start"][index], rows["end"][index]
        lane = next((i for i, busy in enumerate(ends) if busy <= start), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[index] = lane
    return lanes


def _traces(
    timeline: Timeline,
    rows: NDArray[np.void],
    window: _Window,
    shown: tuple[float, float],
    place: NDArray[np.float64],
    thickness: NDArray[np.float64],
) -> list[Figure]:
    """Bars cut to what is ``shown`` (seconds): a trace a phase and name, other steps' bars pale."""
    start, end = np.maximum(rows["start"], shown[0]), np.minimum(rows["end"], shown[1])
    step = window.steps[np.searchsorted(window.steps["rank"], rows["rank"])]
    own = (rows["start"] >= step["start"]) & (rows["start"] < step["end"])
    edge = 0.6 if len(rows) <= _MANY else 0  # edges of very thin bars would hide them
    traces = []
    kinds = zip(rows["phase"].tolist(), rows["name"].tolist(), own.tolist(), strict=True)
    for phase, name, inside in sorted(set(kinds)):
        mine = (rows["phase"] == phase) & (rows["name"] == name) & (own == inside)
        part = next((part for part in PARTS if part.phase == phase), PARTS[-1])
        text = label(timeline.names[name])
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": text,
                "text": text if inside else "",
                "opacity": 1 if inside else 0.35,
                "base": _milliseconds(start[mine] - window.start),
                "x": _milliseconds(end[mine] - start[mine]),
                "y": np.round(place[mine], 3).tolist(),
                "width": np.round(thickness[mine], 3).tolist(),
                "customdata": [_hover(row) for row in rows[mine]],
                "hovertemplate": f"<b>%{{fullData.name}}</b> · {Phase(phase).name.lower()}"
                "<br>rank %{customdata[0]} · %{customdata[1]}<extra></extra>",
                "marker": {"color": part.color, "line": {"color": "--paper", "width": edge}},
                "textposition": "inside",
                "insidetextanchor": "middle",
                "insidetextfont": {"color": part.text_color},
                "textangle": 0,
            }
        )
    return traces


def _milliseconds(seconds: NDArray[np.float64]) -> list[float]:
    return np.round(1e3 * seconds, 4).tolist()  # type: ignore[no-any-return]


def _hover(row: Any) -> tuple[int, str]:
    duration = format_seconds(float(row["end"] - row["start"]))
    size = f" · {format_bytes(int(row['bytes']))}" if row["bytes"] else ""
    return int(row["rank"]), duration + size


def _band(step: Any, ranks: NDArray[np.int32], streams: int, window: _Window) -> Figure:
    """The ground on which one rank's step is drawn, from its own begin to its own end."""
    top = int(np.searchsorted(ranks, step["rank"])) * (streams + _GAP)
    return {
        "type": "rect",
        "layer": "below",
        "x0": 1e3 * (float(step["start"]) - window.start),
        "x1": 1e3 * (float(step["end"]) - window.start),
        "y0": top,
        "y1": top + streams,
        "fillcolor": "--band",
        "line": {"width": 0},
    }


def _rank_axis(ranks: NDArray[np.int32], streams: Sequence[str], pitch: float) -> Figure:
    labels: dict[float, str] = {}
    for at, rank in enumerate(ranks):
        for row, stream in enumerate(streams):
            who = f"<b>rank {rank}</b>  " if row == 0 else ""
            labels[at * (len(streams) + _GAP) + row + 0.5] = who + label(stream)
    return axis(
        tickvals=list(labels),
        ticktext=list(labels.values()),
        tickfont={"size": 12 if pitch >= 16 else 10},
        range=[len(ranks) * (len(streams) + _GAP) - _GAP + 0.1, -0.1],
        showgrid=False,
        ticklabelstandoff=4,
    )


def _note(timeline: Timeline, name: str, window: _Window, shown: int) -> str:
    ranks = len(window.steps)
    which = "its steady state" if timeline.source == "simulated" else "its median step"
    note = (
        f"Step {window.number} of {window.count} of {name}, {which}: "
        f"{format_seconds(window.length)} from the first rank's begin to the last rank's end."
    )
    return note if shown == ranks else f"{note} The first {shown} of {ranks} ranks are shown."
