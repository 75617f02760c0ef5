"""Time by axis: which axis of parallelism a step waits for, and what hides behind compute.

A rank of a hybrid step communicates along several axes at once: a message of the pipeline is on its
way while tensors are gathered. What a piece of exposed communication is *of* is told by what the
rank saw through before it went on: of the calls under way, the last one that ended by the time the
rank did something else again; where all of them outlast that, the one that ended first. So every
instant counts once, and the axes' exposed times add up to the exposed communication of
``phases_of_steps``, but for what a rank waited while none of its calls was under way.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.timeline.phases import Pieces, covered, pieces_of
from steptime.timeline.timeline import Phase, Timeline

AxisOf = Callable[[str, str, int], str]
"""The axis of a call from its name, its stream and its bytes; empty where it is of none."""

_KIND = ("name", "stream", "bytes")


@dataclass(frozen=True, eq=False)
class ByAxis:
    """Seconds of each step of each rank, all of shape (steps of all ranks, axes).

    ``axes``: their names, in the order of the columns. ``under_way``: any call of the axis is.
    ``exposed``: the rank neither computes nor updates and it is this axis that it waits for.
    ``hidden``: a call of the axis is under way behind compute or update. What is left of
    ``under_way`` is behind the wait for another axis, or behind nothing that is timed. ``rank`` and
    ``duration``: whose step each row is and what it took, shape (steps of all ranks,).
    """

    axes: tuple[str, ...]
    rank: Longs
    duration: Floats
    under_way: Floats
    exposed: Floats
    hidden: Floats


def axis_in_name(name: str, _stream: str = "", _nbytes: int = 0) -> str:
    """The axis of a live call, the second word of its name, as of ``all_gather tensor``."""
    return (*name.split(), "", "")[1]


def times_by_axis(timeline: Timeline, name: str, axis_of: AxisOf, first_step: int = 0) -> ByAxis:
    """Time by axis of the steps called ``name`` from number ``first_step`` on, in order of rank.

    ``axis_of`` is asked once for every kind of call of the timeline. A group along several axes,
    such as ``context+data``, is an axis of its own.
    """
    steps = timeline.steps_named(name)
    steps = steps[steps["step"] >= first_step]
    axes, axis = _axis_of_rows(timeline, axis_of)
    found = ByAxis(
        axes,
        steps["rank"].astype(np.int64),
        steps["end"] - steps["start"],
        *(np.zeros((len(steps), len(axes))) for _ in range(3)),
    )
    known: dict[bytes, Longs] = {}
    of_ranks = (_by_rank(every["rank"], steps) for every in (timeline.intervals, steps))
    for own, mine in zip(*of_ranks, strict=True):
        rows = timeline.intervals[own]
        rows["rank"] = 0
        # Ranks that did the same at the same times, as a simulation has many, are divided up once.
        like = known.setdefault(rows.tobytes(), mine)
        if like is mine:
            _fill(found, mine, rows, axis[own], steps[mine])
        for figures in (found.under_way, found.exposed, found.hidden):
            figures[mine] = figures[like]
    return found


def _by_rank(ranks: NDArray[np.int32], steps: NDArray[np.void]) -> list[Longs]:
    """For each rank that has steps, in order, the places where ``ranks`` is that rank."""
    order = np.argsort(ranks, kind="stable")
    each = np.unique(steps["rank"])
    first, past = (np.searchsorted(ranks[order], each, side=side) for side in ("left", "right"))
    return [order[begin:end] for begin, end in zip(first, past, strict=True)]


def _axis_of_rows(timeline: Timeline, axis_of: AxisOf) -> tuple[tuple[str, ...], Longs]:
    """The axes, in alphabetical order, and the place of each interval's, -1 where it has none."""
    rows = timeline.intervals
    axis = np.full(len(rows), -1, np.int64)
    communicates = rows["phase"] == Phase.COMMUNICATION
    calls = rows[communicates]
    # One number for each kind of call: sorting numbers is much quicker than sorting rows of them.
    sizes, size = np.unique(calls["bytes"], return_inverse=True)
    kind = (calls["name"].astype(np.int64) * len(timeline.streams) + calls["stream"]) * len(sizes)
    _, first, kind = np.unique(kind + size, return_index=True, return_inverse=True)
    labels = [
        axis_of(timeline.names[name], timeline.streams[stream], nbytes)
        for name, stream, nbytes in calls[list(_KIND)][first].tolist()
    ]
    axes = tuple(sorted({*labels} - {""}))
    place = np.array([axes.index(label) if label else -1 for label in labels], np.int64)
    axis[communicates] = place[kind]
    return axes, axis


def _fill(
    found: ByAxis, at: Longs, rows: NDArray[np.void], axis: Longs, steps: NDArray[np.void]
) -> None:
    """Fill in the rows ``at`` of one rank's ``steps``, from its intervals and their axes."""
    pieces = pieces_of(rows, steps["start"], steps["end"])
    waited_for = _waited_for(pieces, rows[axis >= 0], axis[axis >= 0])
    for column in range(len(found.axes)):
        own = rows[axis == column]
        under_way = covered(own["start"], own["end"], pieces.edges)
        found.under_way[at, column] = pieces.total(under_way)
        found.hidden[at, column] = pieces.total(under_way & (pieces.computing | pieces.updating))
        found.exposed[at, column] = pieces.total(waited_for == column)


def _waited_for(pieces: Pieces, calls: NDArray[np.void], axis: Longs) -> Longs:
    """The axis that each exposed piece is of, shape (pieces,): -1 of one without a call, or hidden.

    ``axis``: that of each of one rank's ``calls``.
    """
    exposed = np.flatnonzero(pieces.exposed)
    begin = pieces.edges[exposed]
    # Each call is paired with the exposed pieces that it covers.
    first, past = (np.searchsorted(begin, calls[edge]) for edge in ("start", "end"))
    count = past - first
    call = np.repeat(np.arange(len(calls)), count)
    piece = exposed[np.arange(len(call)) - np.repeat(np.cumsum(count) - count - first, count)]
    end = calls["end"][call]
    outlasts = end > _goes_on(pieces)[piece]
    # The best pair of each piece is its first: of ends in time the last, else the first of all.
    order = np.lexsort((axis[call], np.where(outlasts, end, -end), outlasts, piece))
    covered_pieces, best = np.unique(piece[order], return_index=True)
    found = np.full(len(pieces.exposed), -1, np.int64)
    found[covered_pieces] = axis[call[order[best]]]
    return found


def _goes_on(pieces: Pieces) -> Floats:
    """When the rank does something else than wait again, seconds, shape (pieces,)."""
    count = len(pieces.exposed)
    edge = np.where(pieces.exposed, count, np.arange(count))
    return np.asarray(pieces.edges[np.minimum.accumulate(edge[::-1])[::-1]])
