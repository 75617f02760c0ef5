"""Chrome traces: Timeline to and from Chrome Trace Event JSON, which ui.perfetto.dev opens.

Format: the Trace Event Format document of the Chromium project. A rank is a process and a stream a
thread. Slices of one thread must nest or be disjoint, so intervals of one stream that overlap
otherwise go to further threads of the same name. A message is an arrow: a flow event at each end,
which must lie inside a slice of its thread. Where a rank has none at that instant, a slice of a
nanosecond is put there.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.files import atomic_file, bounded_bytes, parsed_json, reading
from steptime.limits import MOST_RANKS
from steptime.timeline.timeline import INTERVAL, MESSAGE, Clock, Phase, Source, Timeline
from steptime.timeline.tracks import NONE, Track, ends_on_tracks, nanoseconds, tracks

FORMAT = "steptime-trace"
VERSION = 1
_MOST_BYTES = 1 << 32  # unpacked
_MARK = "message"
"""The category of arrows and of the slices that only exist to hold their ends."""

_CATEGORIES = [phase.name.lower() for phase in Phase]  # which number themselves from 0
_EVENTS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class Counter:
    """A figure over time that a viewer draws as a curve: ``values[i]`` at ``at[i]`` seconds."""

    name: str
    at: Floats
    values: Floats


def quietly(done: int, whole: int) -> None:
    """The ``tell`` that ignores progress: ``done`` of ``whole`` rows are written."""


def write_chrome_trace(
    path: Path,
    timeline: Timeline,
    *,
    counters: Sequence[Counter] = (),
    hosts: Sequence[str] = (),
    rank: int = 0,
    tell: Callable[[int, int], None] = quietly,
) -> None:
    """Write ``timeline`` to ``path``, atomically; compressed where that ends in ``.gz``.

    ``hosts``: the host of each rank, if known, to name ranks by. ``rank``: the rank whose file this
    is, for tools that read one file a rank, such as HTA. ``tell(done, whole)`` is called with the
    progress in rows.
    """
    with atomic_file(path) as file, _packed(file, path) as out:
        _write(out, timeline, counters, hosts, rank, tell)


def packed_chrome_trace(timeline: Timeline) -> bytes:
    """What ``write_chrome_trace`` writes to a file whose name ends in ``.gz``."""
    file = BytesIO()
    with _packed(file, Path("trace.json.gz")) as out:
        _write(out, timeline, (), (), 0, quietly)
    return file.getvalue()


def _write(
    out: IO[bytes],
    timeline: Timeline,
    counters: Sequence[Counter],
    hosts: Sequence[str],
    rank: int,
    tell: Callable[[int, int], None],
) -> None:
    of_ranks = tracks(timeline, nested=True)
    origin = _origin(timeline)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "source": timeline.source,
        "ranks": timeline.ranks,
        "origin_ns": origin,
        "clock": [asdict(clock) for clock in timeline.clocks],
        "bubble": timeline.bubble,
    }
    head = {
        "displayTimeUnit": "ms",
        "distributedInfo": {"rank": rank, "world_size": timeline.ranks},
        "otherData": about,
    }
    events = _events(timeline, of_ranks, origin, counters, hosts)
    whole = timeline.intervals.size + timeline.messages.size
    out.write(json.dumps(head)[:-1].encode() + b',\n"traceEvents":[\n')
    done, separator = 0, ""
    while some := list(islice(events, _EVENTS_AT_ONCE)):
        out.write((separator + ",\n".join(some)).encode())
        separator = ",\n"
        done += len(some)
        tell(min(done, whole), whole)
    out.write(b"\n]}\n")


def read_chrome_trace(path: Path) -> Timeline:
    """The timeline that ``write_chrome_trace`` wrote.

    Raises UsageError when the file is missing, truncated, not steptime's, or newer than this code.
    """
    content = bounded_bytes(path, "trace", _MOST_BYTES)
    with reading(path, "trace", "run steptime again"):
        document = parsed_json(content, _Document)
        about = document["otherData"]
        if about.get("format") != FORMAT:
            raise ValueError("another program wrote it")
        if about["version"] > VERSION:
            raise ValueError(f"it has version {about['version']} and this steptime reads {VERSION}")
        return _checked(_timeline(document["traceEvents"], about))


def of_rank(timeline: Timeline, rank: int) -> Timeline:
    """A timeline for one rank's own trace file: its intervals, without messages."""
    own = timeline.intervals[timeline.intervals["rank"] == rank]
    return replace(timeline, intervals=own, messages=timeline.messages[:0])


def _packed(file: IO[bytes], path: Path) -> IO[bytes]:
    if path.suffix != ".gz":
        return file
    packed: Any = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
    return packed  # type: ignore[no-any-return]


def _origin(timeline: Timeline) -> int:
    """The whole second, in ns, from which times are counted: long after boot a float loses ns."""
    firsts = [timeline.intervals["start"], timeline.messages["sent"]]
    first = min((float(of.min()) for of in firsts if of.size), default=0.0)
    return int(first // 1) * 10**9


def _events(
    timeline: Timeline,
    of_ranks: dict[int, list[Track]],
    origin: int,
    counters: Sequence[Counter],
    hosts: Sequence[str],
) -> Iterator[str]:
    names = [json.dumps(name) for name in timeline.names]
    for rank, own in of_ranks.items():
        yield from _rank_metadata(timeline, rank, own, hosts)
        for track in own:
            yield from _slices(timeline, names, track, origin)
    yield from _arrows(timeline, of_ranks, origin)
    for counter in counters:
        name = json.dumps(counter.name)
        times = (nanoseconds(counter.at) - origin).tolist()
        for at, value in zip(times, counter.values.tolist(), strict=True):
            yield f'{{"ph":"C","name":{name},"pid":0,"ts":{_us(at)},"args":{{"v":{value:.6g}}}}}'


def _rank_metadata(
    timeline: Timeline, rank: int, own: Sequence[Track], hosts: Sequence[str]
) -> Iterator[str]:
    yield _metadata("process_name", rank, 0, {"name": f"rank {rank}"})
    yield _metadata("process_sort_index", rank, 0, {"sort_index": rank})
    if hosts:
        yield _metadata("process_labels", rank, 0, {"labels": hosts[rank]})
    for track in own:
        thread = track.number + 1
        yield _metadata("thread_name", rank, thread, {"name": timeline.streams[track.stream]})
        yield _metadata("thread_sort_index", rank, thread, {"sort_index": thread})


def _metadata(kind: str, rank: int, thread: int, args: Mapping[str, Any]) -> str:
    event = {"ph": "M", "name": kind, "pid": rank, "tid": thread, "args": args}
    return json.dumps(event, separators=(",", ":"))


def _slices(timeline: Timeline, names: Sequence[str], track: Track, origin: int) -> Iterator[str]:
    rows = timeline.intervals[track.rows]
    thread = track.number + 1
    columns = [rows[field].tolist() for field in ("name", "phase", "step", "bytes")] + [
        (track.start - origin).tolist(),
        (track.end - track.start).tolist(),
        np.maximum(nanoseconds(rows["ready"]) - track.start, 0).tolist(),
    ]
    for name, phase, step, size, start, length, waited in zip(*columns, strict=True):
        wait = f',"waited":{_us(waited)}' if waited else ""
        yield (
            f'{{"ph":"X","name":{names[name]},"cat":"{_CATEGORIES[phase]}",'
            f'"pid":{track.rank},"tid":{thread},"ts":{_us(start)},"dur":{_us(length)},'
            f'"args":{{"step":{step},"bytes":{size},"stream":{thread}{wait}}}}}'
        )


def _arrows(timeline: Timeline, of_ranks: dict[int, list[Track]], origin: int) -> Iterator[str]:
    """The two ends of every message, each inside a slice, and when the message really arrived.

    A viewer looks for the slice around an instant, and a slice that ends then does not count. So
    the arrow ends a nanosecond before its message.
    """
    messages = timeline.messages
    sent, received = nanoseconds(messages["sent"]), nanoseconds(messages["received"])
    begins = _ends(timeline, of_ranks, messages["src"].astype(np.int64), sent)
    ends = _ends(timeline, of_ranks, messages["dst"].astype(np.int64), received - 1)
    yield from _mark_metadata(of_ranks, messages, begins, ends)
    both = '"name":"message","cat":"message"'
    for number, (src, dst, size, out, arrived) in enumerate(
        zip(
            *(messages[field].tolist() for field in ("src", "dst", "bytes")),
            (sent - origin).tolist(),
            (received - origin).tolist(),
            strict=True,
        )
    ):
        for thread, rank, at in ((begins[number], src, out), (ends[number], dst, arrived - 1)):
            if thread < 0:  # nothing is shown there
                yield (
                    f'{{"ph":"X",{both},"pid":{rank},"tid":{-thread},"ts":{_us(at)},"dur":0.001,'
                    f'"args":{{"bytes":{size}}}}}'
                )
        yield (
            f'{{"ph":"s",{both},"id":{number},"pid":{src},"tid":{abs(begins[number])},'
            f'"ts":{_us(out)},"args":{{"bytes":{size}}}}}'
        )
        yield (
            f'{{"ph":"f","bp":"e",{both},"id":{number},"pid":{dst},"tid":{abs(ends[number])},'
            f'"ts":{_us(arrived - 1)},"args":{{"bytes":{size},"received":{_us(arrived)}}}}}'
        )


def _ends(
    timeline: Timeline, of_ranks: dict[int, list[Track]], ranks: Longs, at: Longs
) -> list[int]:
    """The thread of each end of a message; a new one, negative, where it needs its own slice."""
    number, _ = ends_on_tracks(timeline, of_ranks, ranks, at)
    spare = {rank: -len(own) - 1 for rank, own in of_ranks.items()}
    return [
        place + 1 if place != NONE else spare.get(rank, -1)
        for place, rank in zip(number.tolist(), ranks.tolist(), strict=True)
    ]


def _mark_metadata(
    of_ranks: dict[int, list[Track]],
    messages: NDArray[np.void],
    begins: Sequence[int],
    ends: Sequence[int],
) -> Iterator[str]:
    """The names of the threads, and of ranks, that only show ends of messages."""
    pairs = [*zip(messages["src"].tolist(), begins, strict=True)]
    pairs += zip(messages["dst"].tolist(), ends, strict=True)
    for rank, thread in sorted({pair for pair in pairs if pair[1] < 0}):
        if rank not in of_ranks:
            yield _metadata("process_name", rank, 0, {"name": f"rank {rank}"})
            yield _metadata("process_sort_index", rank, 0, {"sort_index": rank})
        yield _metadata("thread_name", rank, -thread, {"name": "messages"})


def _us(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    whole, rest = divmod(abs(ns), 1000)
    return f"{'-' * (ns < 0)}{whole}.{rest:03d}"


class _Args(TypedDict, total=False):
    """What is read of the arguments of an event."""

    name: str
    step: int
    bytes: int
    received: float
    waited: float


class _Event(TypedDict, total=False):
    """What is read of an event; a slice, a mark and a name have different ones of these."""

    ph: Required[str]
    name: str
    cat: str
    pid: int
    tid: int
    id: int
    ts: float
    dur: float
    args: _Args


class _About(TypedDict, total=False):
    """What the trace says of itself; another program's says other things."""

    format: str
    version: int
    source: Source
    ranks: int
    origin_ns: int
    clock: list[Clock]
    bubble: float


class _Document(TypedDict, total=False):
    """What is read of a trace; a reader of these alone passes over all else in the file."""

    otherData: _About
    traceEvents: list[_Event]


def _checked(timeline: Timeline) -> Timeline:
    """The timeline; raises ValueError where it has ranks or times that no run has."""
    intervals, messages = timeline.intervals, timeline.messages
    ranks = [intervals["rank"], messages["src"], messages["dst"]]
    if not 1 <= timeline.ranks <= MOST_RANKS:
        raise ValueError(f"it is of {timeline.ranks} ranks")
    if any(of.size and not 0 <= of.min() <= of.max() < timeline.ranks for of in ranks):
        raise ValueError("it has events of ranks that are not there")
    if (intervals["end"] < intervals["start"]).any():
        raise ValueError("it has an event that ends before it begins")
    return timeline


def _timeline(events: Sequence[_Event], about: _About) -> Timeline:
    origin = about.get("origin_ns", 0)
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    slices = [event for event in events if event["ph"] == "X" and event["cat"] != _MARK]
    names = {label: i for i, label in enumerate(dict.fromkeys(e["name"] for e in slices))}
    labels = [threads[event["pid"], event["tid"]] for event in slices]
    streams = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    intervals = [
        (
            event["pid"],
            streams[label],
            names[event["name"]],
            Phase[event["cat"].upper()],
            event["args"]["step"],
            _seconds(origin, event["ts"]),
            _seconds(origin, event["ts"], event["dur"]),
            event["args"]["bytes"],
            _seconds(origin, event["ts"], event["args"].get("waited", 0.0)),
        )
        for event, label in zip(slices, labels, strict=True)
    ]
    return Timeline(
        source=about["source"],
        ranks=about["ranks"],
        names=tuple(names),
        streams=tuple(streams),
        intervals=np.array(intervals, dtype=INTERVAL),
        messages=_messages(events, origin),
        clocks=tuple(about.get("clock", ())),
        bubble=float(about.get("bubble", 0.0)),
    )


def _messages(events: Sequence[_Event], origin: int) -> NDArray[np.void]:
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    rows = [
        (
            starts[end["id"]]["pid"],
            end["pid"],
            _seconds(origin, starts[end["id"]]["ts"]),
            _seconds(origin, end["args"].get("received", end["ts"])),
            end["args"]["bytes"],
        )
        for end in events
        if end["ph"] == "f"
    ]
    return np.array(rows, dtype=MESSAGE)


def _seconds(origin: int, *us: float) -> float:
    """Convert microseconds after the origin, whole nanoseconds, to seconds."""
    return (origin + sum(round(1000 * of) for of in us)) / 1e9
