"""Timeline: the record of a run, live or simulated, that all tables, plots and reports read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Source: TypeAlias = Literal["measured", "simulated", "computed"]


class Phase(IntEnum):
    """What an interval's time is spent on.

    WAIT is a stream blocked on another; OTHER is any other work, such as reading data. FAULT is no
    work: it marks how long a link of the rank's host was cut, slow or lossy.
    """

    STEP = 0
    COMPUTE = 1
    COMMUNICATION = 2
    UPDATE = 3
    WAIT = 4
    OTHER = 5
    FAULT = 6


INTERVAL = np.dtype(
    [
        ("rank", np.int32),
        ("stream", np.uint16),  # index into Timeline.streams
        ("name", np.uint32),  # index into Timeline.names
        ("phase", np.uint8),  # a Phase
        ("step", np.int32),
        ("start", np.float64),  # seconds
        ("end", np.float64),  # seconds
        ("bytes", np.int64),  # payload of a communication, else 0
        ("ready", np.float64),  # seconds: when the last rank that it waited for came; 0 for none
    ]
)

MESSAGE = np.dtype(
    [
        ("src", np.int32),
        ("dst", np.int32),
        ("sent", np.float64),  # seconds: first byte out
        ("received", np.float64),  # seconds: last byte in
        ("bytes", np.int64),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How the clock of one host's ranks was aligned with that of rank 0.

    ``offset_s`` was subtracted from its readings, and grew by ``drift_s`` over the run; its error
    is at most ``error_s``. All are 0 on the host of rank 0.
    """

    host: str
    ranks: tuple[int, ...]
    offset_s: float
    error_s: float
    drift_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Intervals and messages of one run, all ranks on one clock.

    ``intervals`` has dtype INTERVAL and ``messages`` dtype MESSAGE; times are seconds from an
    origin common to all ranks. A step is itself an interval of phase STEP on the stream ``step``,
    named after what ran in it (the strategy). The other intervals of that rank lie inside it or
    reach over its end, as a gather that overlaps the next step does. ``clocks``: how the clocks of
    the hosts were aligned, empty where there was one clock to begin with. ``bubble``: the bubble of
    a pipeline's own schedule, as a part of what its busiest rank works, 0 without a pipeline.
    """

    source: Source
    ranks: int
    names: tuple[str, ...]
    streams: tuple[str, ...]
    intervals: NDArray[np.void]
    messages: NDArray[np.void]
    clocks: tuple[Clock, ...] = ()
    bubble: float = 0.0

    def steps_named(self, name: str) -> NDArray[np.void]:
        """The STEP intervals called ``name``, in order of rank and start."""
        if name not in self.names:
            return self.intervals[:0]
        rows = self.intervals
        steps = rows[(rows["phase"] == Phase.STEP) & (rows["name"] == self.names.index(name))]
        return np.sort(steps, order=["rank", "start"])

    def between(self, start: float, end: float) -> "Timeline":
        """Only the intervals and messages that overlap ``start`` to ``end``, both in seconds."""
        rows, sent = self.intervals, self.messages
        return replace(
            self,
            intervals=rows[(rows["end"] > start) & (rows["start"] < end)],
            messages=sent[(sent["received"] > start) & (sent["sent"] < end)],
        )


def merge(timelines: Sequence[Timeline]) -> Timeline:
    """Merge timelines that share a clock: those of a run's ranks, or of runs one after another.

    Raises ValueError when they do not all come from the same source.
    """
    if len(timelines) == 1:
        return timelines[0]
    sources = {timeline.source for timeline in timelines}
    if len(sources) != 1:
        raise ValueError(f"cannot merge timelines from different sources: {sorted(sources)}")
    names = tuple(dict.fromkeys(name for timeline in timelines for name in timeline.names))
    streams = tuple(dict.fromkeys(stream for timeline in timelines for stream in timeline.streams))
    parts = []
    for timeline in timelines:
        rows = timeline.intervals.copy()
        if len(rows):
            rows["name"] = _translation(timeline.names, names)[rows["name"]]
            rows["stream"] = _translation(timeline.streams, streams)[rows["stream"]]
        parts.append(rows)
    return Timeline(
        source=timelines[0].source,
        ranks=max(timeline.ranks for timeline in timelines),
        names=names,
        streams=streams,
        intervals=np.concatenate(parts),
        messages=np.concatenate([timeline.messages for timeline in timelines]),
        clocks=next((timeline.clocks for timeline in timelines if timeline.clocks), ()),
        bubble=max(timeline.bubble for timeline in timelines),
    )


def _translation(old: tuple[str, ...], new: tuple[str, ...]) -> NDArray[np.uint32]:
    position = {label: index for index, label in enumerate(new)}
    return np.array([position[label] for label in old], dtype=np.uint32)
