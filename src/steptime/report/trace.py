"""The timeline that a page carries: its steps, packed for the browser to draw any part of them."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.report.kinds import kinds_of, name_of, with_like
from steptime.report.packed import packed
from steptime.report.rows import Layout, layout_of
from steptime.report.steps import Window, by_rank, default_step, window
from steptime.runs.figures import StepFigures
from steptime.timeline import Phase, Timeline
from steptime.timeline.critical_path import critical_path
from steptime.units import format_seconds

MAX_INTERVALS = 600_000
"""Of all steps of a page together: very many are alike, or MAX_BYTES cuts them."""

MAX_BYTES = 1_350_000
"""Of all traces of a page, packed: beside plotly.js and the figures it stays below 2 MB."""

MAX_STEPS = 200
_FEW = 20_000  # messages of a step
_MOST_WALKED = 30_000  # intervals of a step whose critical path is drawn
_FINE, _COARSE = 1 << 24, 1 << 16  # ticks of a step, which times are counted in


class Room(NamedTuple):
    """What there is for a strategy: so many intervals, and so many ticks a step."""

    intervals: int
    ticks: int


@dataclass(frozen=True, eq=False)
class Traced:
    """The steps of one strategy.

    ``packed``: what ``trace.js`` reads. ``note``: what is there and what is not.
    """

    name: str
    packed: str
    note: str


def traces(
    timelines: Mapping[str, tuple[Timeline, str]], entries: Mapping[str, StepFigures] | None = None
) -> list[Traced]:
    """The steps of each strategy that its timeline holds: every one, or as many as a page can hold.

    ``timelines``: by the name to show, the timeline and the name of the steps in it. ``entries``:
    by the same names the figures, which tell what the ranks are. Where all together are too large,
    times become coarse before anything is left out.
    """
    known = entries or {}
    tables = {name: by_rank(line.steps_named(step)) for name, (line, step) in timelines.items()}
    held = [name for name, table in tables.items() if table is not None]
    room, ticks = MAX_INTERVALS, _FINE
    while held:
        each = Room(room // len(held), ticks)
        found = [
            _traced(name, timelines[name][0], tables[name], known.get(name), each) for name in held
        ]
        size = sum(len(one.packed) for one in found)
        if size <= MAX_BYTES:
            return found
        if ticks == _COARSE:
            room = int(0.9 * room * MAX_BYTES / size)
        ticks = _COARSE
    return []


def _traced(
    name: str,
    timeline: Timeline,
    table: NDArray[np.void] | None,
    entry: StepFigures | None,
    room: Room,
) -> Traced:
    assert table is not None  # noqa: S101
    first = default_step(table, timeline.source)
    whole = window(timeline, table, first)
    kinds = kinds_of(timeline, table, whole.length / _FINE or 1e-9)
    firsts = np.array([kind[0] for kind in kinds], np.int32)
    left = room.intervals
    shown, left_out = sampled(whole.of_ranks(firsts), left)
    order = _in_order(table.shape[1], first)
    windows = [shown]
    for step in order[1:]:
        left -= len(windows[-1].rows)
        another, missing = sampled(window(timeline, table, step).of_ranks(firsts), left)
        if missing or left_out:
            break
        windows.append(another)
    windows.sort(key=lambda one: one.number)
    layout = layout_of(timeline, windows, kinds)
    labels = [name_of(kind, entry) for kind in (with_like(kinds, entry) if entry else kinds)]
    of = dict(zip(firsts.tolist(), labels, strict=True))
    tick = max(one.length for one in windows) / room.ticks or 1e-9
    head = {"title": name, "first": windows.index(shown), "tick": tick}
    head["labels"] = [of[rank] for rank in layout.ranks.tolist()]
    packed = _packed(timeline, head, windows, layout)
    note = _note(timeline, name, shown, len(windows), left_out)
    if len(kinds) < len(whole.ranks):
        note += (
            f" Ranks that do the same at the same times share a row, {len(whole.ranks):,} ranks "
            f"{len(kinds):,}; messages between them are not drawn."
        )
    if room.ticks == _COARSE:
        note += f" Its times are within {format_seconds(tick)}, those of trace.json.gz exact."
    return Traced(name, packed, note)


def _in_order(count: int, first: int) -> list[int]:
    """The steps, ``first`` before all others; of very many some, spread over all."""
    spread = np.unique(np.linspace(0, count - 1, min(count, MAX_STEPS)).astype(int)).tolist()
    return [first, *(step for step in spread if step != first)]


def sampled(shown: Window, room: int) -> tuple[Window, str]:
    """A step with at most ``room`` intervals, and what that leaves out, in words.

    Whole ranks go, spread evenly; where that does not do, the shortest intervals of those left.
    """
    counts = np.bincount(np.searchsorted(shown.ranks, shown.rows["rank"]), minlength=1)
    if counts.sum() <= room:
        return shown, ""
    kept = max(1, int(len(counts) * room / counts.sum()))
    places = np.unique(np.linspace(0, len(counts) - 1, kept).round().astype(int))
    some = shown.of_ranks(shown.ranks[places])
    what = "ranks" if len(shown.whole) == len(shown.ranks) else "kinds of ranks"
    words = f"{len(places):,} of its {len(counts):,} {what}, spread evenly" * (kept < len(counts))
    if len(some.rows) > room:
        longest = np.argsort(some.rows["start"] - some.rows["end"], kind="stable")[:room]
        words += " and " * bool(words) + f"the {room:,} longest of {len(some.rows):,} intervals"
        some = some.of_rows(np.sort(longest))
    return some, words


def _note(timeline: Timeline, name: str, shown: Window, steps: int, left_out: str) -> str:
    which = "in the steady state" if timeline.source == "simulated" else "the median"
    note = (
        f"Step {shown.number + 1} of {shown.count} of {name} is {which}: "
        f"{format_seconds(shown.length)} from the first rank’s begin to the last rank’s end."
    )
    if left_out:
        return f"{note} This page holds a sample of it: {left_out}. trace.json.gz holds all."
    if steps < shown.count:
        note += f" This page holds {steps} of the {shown.count} steps; trace.json.gz holds all."
    return note


def _packed(
    timeline: Timeline, told: Mapping[str, Any], windows: Sequence[Window], layout: Layout
) -> str:
    """Two deflated parts, JSON and then columns, behind the length of the first.

    ``told``: what the JSON says beside the steps, such as the ``tick`` in seconds.
    """
    tick = told["tick"]
    kinds: dict[tuple[int, int, int, int], int] = {}
    columns: list[NDArray[np.int64]] = []
    steps = [_step(timeline, one, layout, tick, kinds, columns) for one in windows]
    table = np.concatenate(columns, axis=1) if columns else np.empty((3, 0), np.int64)
    head = {
        **told,
        "source": timeline.source,
        "ranks": layout.ranks.tolist(),
        "streams": [timeline.streams[stream] for stream in layout.streams],
        "rows": layout.rows,
        "merged": layout.merged,
        "names": list(timeline.names),
        "kinds": [[*kind] for kind in kinds],
        "steps": steps,
        "intervals": table.shape[1],
        "all": len(layout.all_ranks),
    }
    texts = zlib.compress(json.dumps(head, separators=(",", ":")).encode(), 6)
    numbers = zlib.compress(_planes(table), 6)
    return packed(len(texts).to_bytes(4, "little") + texts + numbers)


def _planes(table: NDArray[np.int64]) -> bytes:
    """Four bytes a number, all lowest bytes first: the highest are mostly 0 and take no room."""
    planes = table.astype("<i4").view(np.uint8).reshape(*table.shape, 4)
    return np.ascontiguousarray(np.moveaxis(planes, 2, 1)).tobytes()


def _step(
    timeline: Timeline,
    shown: Window,
    layout: Layout,
    tick: float,
    kinds: dict[tuple[int, int, int, int], int],
    columns: list[NDArray[np.int64]],
) -> dict[str, Any]:
    """What the page's JSON holds of a step; appends its intervals to ``columns``, shape (3, n).

    A column is the kind of an interval, its begin from the end of the one before it in the same
    row, and how long it lasts, the last two in ticks.
    """
    rows, *place = layout.placed(shown)
    rows, which = _waits_apart(rows)
    place = [of[which] for of in place]
    order = np.lexsort((rows["start"], *place[::-1]))
    rows, tracks = rows[order], np.stack([of[order] for of in place])
    starts = np.round((rows["start"] - shown.start) / tick).astype(np.int64)
    ends = np.maximum(starts, np.round((rows["end"] - shown.start) / tick).astype(np.int64))
    track = np.flatnonzero(np.diff(tracks, prepend=-1).any(axis=0))
    before = np.concatenate([[0], ends[:-1]])
    before[track] = 0
    columns.append(np.stack([_kinds(rows, kinds), starts - before, ends - starts]))
    bounds = np.round((np.stack([shown.steps["start"], shown.steps["end"]]) - shown.start) / tick)
    return {
        "number": shown.number + 1,
        "label": format_seconds(shown.length),
        "length": round(shown.length / tick),
        "tracks": [*tracks[:, track].tolist(), np.diff(np.append(track, len(rows))).tolist()],
        "bounds": bounds.astype(np.int64).tolist(),
        "path": _path(timeline, shown, layout, tick),
        "messages": _messages(timeline, shown, layout, tick),
    }


def _waits_apart(rows: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.intp]]:
    """The intervals with the waiting that calls begin with apart, as intervals of phase WAIT.

    And which of ``rows`` each was a part of, shape (parts,).
    """
    waited = np.flatnonzero(
        (rows["phase"] == Phase.COMMUNICATION) & (rows["ready"] > rows["start"])
    )
    waits, moving = rows[waited].copy(), rows.copy()
    waits["phase"], waits["bytes"], waits["end"] = Phase.WAIT, 0, waits["ready"]
    moving["start"][waited] = waits["end"]
    return np.concatenate([moving, waits]), np.concatenate([np.arange(len(rows)), waited])


def _kinds(
    rows: NDArray[np.void], kinds: dict[tuple[int, int, int, int], int]
) -> NDArray[np.int64]:
    """The number of each interval's name, phase, stream and bytes, shape (rows,).

    ``kinds``: these by what they stand for; new ones are added.
    """
    fields = [rows[field].astype(np.int64) for field in ("name", "phase", "stream", "bytes")]
    key = np.zeros(len(rows), np.int64)
    for values in fields:  # as one integer, which sorts much faster than four
        known, number = np.unique(values, return_inverse=True)
        key = np.unique(key * max(1, len(known)) + number, return_inverse=True)[1]
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    found = zip(*(values[first].tolist() for values in fields), strict=True)
    numbers = [kinds.setdefault(kind, len(kinds)) for kind in found]
    return np.array(numbers, np.int64)[which]


def _path(timeline: Timeline, shown: Window, layout: Layout, tick: float) -> list[list[int]]:
    """The critical path: row, begin and end in ticks, phase, -1 where nothing is known, and rank.

    None of a step of very many intervals, for walking back takes time as their square.
    """
    if len(shown.rows) > _MOST_WALKED:
        return []
    pieces = critical_path(timeline, shown.whole)
    found = []
    for rank, at, start, end in pieces.tolist():
        interval = timeline.intervals[at] if at >= 0 else None
        row = layout.row(rank, -1 if interval is None else int(interval["stream"]))
        if row >= 0:
            begin, done = (round((time - shown.start) / tick) for time in (start, end))
            phase = -1 if interval is None else int(interval["phase"])
            found.append([row, begin, done, phase, rank])
    return found


def _messages(timeline: Timeline, shown: Window, layout: Layout, tick: float) -> list[list[int]]:
    """Of each message its ranks, by place, when it was sent, how long it took, and its bytes.

    Those between the same two kinds of ranks that are alike in all this are one.
    """
    sent = timeline.messages
    end = shown.start + shown.length
    sent = sent[(sent["sent"] >= shown.start) & (sent["sent"] < end)]
    sent = sent[(layout.places(sent["src"]) >= 0) & (layout.places(sent["dst"]) >= 0)]
    if len(sent) > _FEW:
        sent = sent[np.sort(np.argsort(-sent["bytes"], kind="stable")[:_FEW])]
    begin = np.round((sent["sent"] - shown.start) / tick).astype(np.int64)
    took = np.round((sent["received"] - sent["sent"]) / tick).astype(np.int64)
    places = (layout.places(sent[field]) for field in ("src", "dst"))
    found = np.stack([begin, *places, took, sent["bytes"]], axis=1)
    if len(layout.kinds) < len(layout.all_ranks):
        found = np.unique(found, axis=0)
    in_order: list[list[int]] = found[:, [1, 2, 0, 3, 4]].tolist()
    return in_order
