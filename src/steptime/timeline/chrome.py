"""Timeline to and from Chrome Trace Event JSON, which ui.perfetto.dev opens as it is.

Format: the Trace Event Format document of the Chromium project. A rank is a process and a stream
a thread; slices of one thread must nest or be disjoint, so intervals of one stream that overlap
otherwise go to further threads of the same name.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.rundir import write_atomic
from steptime.timeline.timeline import INTERVAL, MESSAGE, Phase, Timeline

FORMAT = "steptime-trace"
VERSION = 1


def write_chrome_trace(path: Path, timeline: Timeline) -> None:
    """Write ``timeline`` to ``path``, a ``.json.gz``, atomically."""
    events: list[dict[str, Any]] = []
    for rank in np.unique(timeline.intervals["rank"]).tolist():
        rows = timeline.intervals[timeline.intervals["rank"] == rank]
        events += _rank_events(timeline, rank, rows)
    for number, message in enumerate(timeline.messages):
        events += _message_events(number, message)
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "format": FORMAT,
            "version": VERSION,
            "source": timeline.source,
            "ranks": timeline.ranks,
        },
    }
    text = json.dumps(document, separators=(",", ":"))
    write_atomic(path, gzip.compress(text.encode(), compresslevel=6, mtime=0))


def read_chrome_trace(path: Path) -> Timeline:
    """The timeline that ``write_chrome_trace`` wrote.

    Raises UsageError when the file is missing, truncated, not steptime's, or newer than this code.
    """
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        about = document["otherData"]
        if about["format"] != FORMAT:
            raise ValueError("another program wrote it")
        if about["version"] > VERSION:
            raise ValueError(f"it has version {about['version']} and this steptime reads {VERSION}")
        return _timeline(document["traceEvents"], about)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read the trace {path}: {error}; run steptime again") from None


def _rank_events(timeline: Timeline, rank: int, rows: NDArray[np.void]) -> list[dict[str, Any]]:
    events = [_metadata("process_name", rank, 0, f"rank {rank}")]
    thread = 0
    for stream, label in enumerate(timeline.streams):
        for lane in _lanes(rows[rows["stream"] == stream]):
            thread += 1
            events.append(_metadata("thread_name", rank, thread, label))
            events += [_slice(timeline, row, thread) for row in lane]
    return events


def _lanes(rows: NDArray[np.void]) -> list[list[Any]]:
    """Share rows out to lanes, so that within each they nest or are disjoint."""
    lanes: list[list[Any]] = []
    open_ends: list[list[float]] = []  # of each lane: the ends of the slices around the next one
    for row in rows[np.lexsort((-rows["end"], rows["start"]))]:
        for lane, ends in zip(lanes, open_ends, strict=True):
            while ends and ends[-1] <= row["start"]:
                ends.pop()
            if not ends or row["end"] <= ends[-1]:
                lane.append(row)
                ends.append(row["end"])
                break
        else:
            lanes.append([row])
            open_ends.append([row["end"]])
    return lanes


def _slice(timeline: Timeline, row: Any, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": timeline.names[row["name"]],
        "cat": Phase(row["phase"]).name.lower(),
        "pid": int(row["rank"]),
        "tid": thread,
        "ts": round(row["start"] * 1e6, 3),
        "dur": round((row["end"] - row["start"]) * 1e6, 3),
        "args": {
            "step": int(row["step"]),
            "bytes": int(row["bytes"]),
            "stream": timeline.streams[row["stream"]],
        },
    }


def _metadata(kind: str, rank: int, thread: int, label: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "args": {"name": label}}


def _message_events(number: int, message: Any) -> list[dict[str, Any]]:
    both = {"name": "message", "cat": "message", "id": number, "tid": 1}
    args = {"bytes": int(message["bytes"])}
    sent, received = round(message["sent"] * 1e6, 3), round(message["received"] * 1e6, 3)
    return [
        both | {"ph": "s", "pid": int(message["src"]), "ts": sent, "args": args},
        both | {"ph": "f", "bp": "e", "pid": int(message["dst"]), "ts": received, "args": args},
    ]


def _timeline(events: list[dict[str, Any]], about: dict[str, Any]) -> Timeline:
    slices = [event for event in events if event["ph"] == "X"]
    names = {label: i for i, label in enumerate(dict.fromkeys(e["name"] for e in slices))}
    streams = {
        label: i for i, label in enumerate(dict.fromkeys(e["args"]["stream"] for e in slices))
    }
    intervals = [
        (
            event["pid"],
            streams[event["args"]["stream"]],
            names[event["name"]],
            Phase[event["cat"].upper()],
            event["args"]["step"],
            event["ts"] / 1e6,
            (event["ts"] + event["dur"]) / 1e6,
            event["args"]["bytes"],
        )
        for event in slices
    ]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    messages = [
        (
            starts[end["id"]]["pid"],
            end["pid"],
            starts[end["id"]]["ts"] / 1e6,
            end["ts"] / 1e6,
            end["args"]["bytes"],
        )
        for end in events
        if end["ph"] == "f"
    ]
    return Timeline(
        source=about["source"],
        ranks=about["ranks"],
        names=tuple(names),
        streams=tuple(streams),
        intervals=np.array(intervals, dtype=INTERVAL),
        messages=np.array(messages, dtype=MESSAGE),
    )
