"""Paraver traces: a Timeline as the three text files NAME.prv, NAME.pcf and NAME.row.

The records are those that paraver-kernel's parser (abbc7c3) reads; states and their colours, and
the types and values of MPI events, are Extrae's (2292a142), so that the views that BSC ships work.
A rank is a task and a stream a thread of it. A thread has one state at a time, so a stream whose
intervals overlap becomes several threads. Steps are events on the first thread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from steptime.arrays import Flags, Longs
from steptime.files import atomic_file, write_atomic
from steptime.timeline.chrome import quietly
from steptime.timeline.timeline import Phase, Timeline
from steptime.timeline.tracks import NONE, Track, ends_on_tracks, nanoseconds, tracks

NAME, STEP, BYTES = 60000001, 60000002, 60000003
POINT_TO_POINT, COLLECTIVE = 50000001, 50000002

STATES = (
    (0, "Idle", "{117,195,255}"),
    (1, "Running", "{0,0,255}"),
    (8, "Wait/WaitAll", "{235,0,0}"),
    (10, "Immediate Send", "{255,0,255}"),
    (11, "Immediate Receive", "{100,100,177}"),
    (13, "Group Communication", "{255,144,26}"),
    (15, "Others", "{192,224,0}"),
)
_OF_PHASE = {Phase.COMPUTE: 1, Phase.UPDATE: 1, Phase.COMMUNICATION: 13, Phase.WAIT: 8}
_OTHERS = 15

MPI_MESSAGES = {"send": (3, "MPI_Isend", 10), "recv": (4, "MPI_Irecv", 11)}
"""By kind of message: its event value, its label, and the thread's state meanwhile."""

MPI_COLLECTIVES = {
    "broadcast": (7, "MPI_Bcast"),
    "barrier": (8, "MPI_Barrier"),
    "reduce": (9, "MPI_Reduce"),
    "all_reduce": (10, "MPI_Allreduce"),
    "all_to_all": (11, "MPI_Alltoall"),
    "gather": (13, "MPI_Gather"),
    "scatter": (15, "MPI_Scatter"),
    "all_gather": (17, "MPI_Allgather"),
    "reduce_scatter": (80, "MPI_Reduce_scatter"),
}
_LINES_AT_ONCE = 20_000


def write_paraver(
    stem: Path,
    timeline: Timeline,
    *,
    hosts: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    when: datetime | None = None,
    tell: Callable[[int, int], None] = quietly,
) -> list[Path]:
    """Write ``timeline`` to ``stem``.prv, .pcf and .row, each atomically; return their paths.

    Times count from the first begin, in ns. ``hosts``: the host of each rank, shape (ranks,), if
    known. ``kinds``: by the name of an interval its kind, ``send``, ``recv`` or a collective;
    without it, the kind is read from the beginning of the name. ``tell(done, whole)`` is called
    with the progress.
    """
    trace = _Trace(timeline, tuple(hosts) or ("host",) * timeline.ranks, kinds or {})
    paths = [stem.with_name(stem.name + suffix) for suffix in (".prv", ".pcf", ".row")]
    records = trace.records()
    with atomic_file(paths[0]) as file:
        file.write((trace.header(when or datetime.now()) + "\n").encode())
        for first in range(0, len(records), _LINES_AT_ONCE):
            some = records[first : first + _LINES_AT_ONCE]
            file.write("".join(f"{record}\n" for record in some).encode())
            tell(first + len(some), len(records))
    write_atomic(paths[1], trace.labels().encode())
    write_atomic(paths[2], trace.rows().encode())
    return paths


@dataclass(frozen=True, eq=False)
class _Trace:
    """A timeline as the records of a Paraver trace; ``hosts``: the host of each rank."""

    timeline: Timeline
    hosts: tuple[str, ...]
    kinds: Mapping[str, str]

    @cached_property
    def visible(self) -> Timeline:
        """The intervals that set a state: no steps, and none without duration."""
        rows = self.timeline.intervals
        lasting = nanoseconds(rows["start"]) < nanoseconds(rows["end"])
        return replace(self.timeline, intervals=rows[lasting & (rows["phase"] != Phase.STEP)])

    @cached_property
    def of_ranks(self) -> dict[int, list[Track]]:
        return tracks(self.visible, nested=False)

    @cached_property
    def nodes(self) -> dict[str, list[int]]:
        """The ranks of each host."""
        found: dict[str, list[int]] = {}
        for rank, host in enumerate(self.hosts):
            found.setdefault(host, []).append(rank)
        return found

    @cached_property
    def origin(self) -> int:
        intervals, messages = self.timeline.intervals, self.timeline.messages
        firsts = [intervals["start"], messages["sent"], messages["received"]]
        return min((int(nanoseconds(of).min()) for of in firsts if of.size), default=0)

    @cached_property
    def end(self) -> int:
        intervals, messages = self.timeline.intervals, self.timeline.messages
        lasts = [intervals["end"], messages["received"], messages["sent"]]
        last = max((int(nanoseconds(of).max()) for of in lasts if of.size), default=self.origin)
        return last - self.origin

    def threads(self, rank: int) -> int:
        """How many threads a rank has; one where it has no intervals."""
        return len(self.of_ranks.get(rank, ())) or 1

    def header(self, when: datetime) -> str:
        """The first line of the trace, and the record of its one communicator."""
        ranks = range(self.timeline.ranks)
        node_of = {host: number for number, host in enumerate(self.nodes, start=1)}
        cpus = ",".join(str(len(of)) for of in self.nodes.values())
        tasks = ",".join(f"{self.threads(rank)}:{node_of[self.hosts[rank]]}" for rank in ranks)
        members = ":".join(str(rank + 1) for rank in ranks)
        return (
            f"#Paraver ({when:%d/%m/%Y at %H:%M}):{self.end}_ns:{len(self.nodes)}({cpus})"
            f":1:{len(ranks)}({tasks}),1\nc:1:1:{len(ranks)}:{members}"
        )

    def records(self) -> list[str]:
        """All records, by time and then by type."""
        times: list[int] = []
        lines: list[str] = []
        for own in self.of_ranks.values():
            for track in own:
                for at, line in self._states(track):
                    times.append(at)
                    lines.append(line)
        for at, line in (*self._steps(), *self._messages()):
            times.append(at)
            lines.append(line)
        types = np.array([int(line[0]) for line in lines], np.int8)
        order = np.lexsort((types, np.array(times, np.int64)))
        return [lines[place] for place in order.tolist()]

    def _states(self, track: Track) -> Iterator[tuple[int, str]]:
        """The states of a thread, and the events that say what each interval is."""
        where = f"0:1:{track.rank + 1}:{track.number + 1}"
        rows = self.visible.intervals[track.rows]
        columns = [rows[field].tolist() for field in ("name", "phase", "bytes")]
        columns += [(edge - self.origin).tolist() for edge in (track.start, track.end)]
        following = [*columns[3][1:], None]
        for name, phase, size, start, end, then in zip(*columns, following, strict=True):
            state, message, collective = self._meaning(name, phase)
            yield start, f"1:{where}:{start}:{end}:{state}"
            yield (
                start,
                f"2:{where}:{start}:{NAME}:{name + 1}:{BYTES}:{size}"
                f":{POINT_TO_POINT}:{message}:{COLLECTIVE}:{collective}",
            )
            if then != end:
                types = (NAME, BYTES, POINT_TO_POINT, COLLECTIVE)
                yield end, f"2:{where}:{end}" + "".join(f":{kind}:0" for kind in types)

    def _meaning(self, name: int, phase: int) -> tuple[int, int, int]:
        """The state of an interval, and the values of the two events of MPI, 0 for none."""
        state = _OF_PHASE.get(Phase(phase), _OTHERS)
        kind = self.kind_of[name]
        if phase == Phase.COMMUNICATION and kind in MPI_MESSAGES:
            value, _, state = MPI_MESSAGES[kind]
            return state, value, 0
        if phase == Phase.COMMUNICATION and kind in MPI_COLLECTIVES:
            return state, 0, MPI_COLLECTIVES[kind][0]
        return state, 0, 0

    @cached_property
    def kind_of(self) -> list[str]:
        """The kind of each name: ``send``, ``recv``, a collective, or none."""
        return [
            self.kinds.get(name, name.partition(" ")[0].replace("receive", "recv"))
            for name in self.timeline.names
        ]

    def _steps(self) -> Iterator[tuple[int, str]]:
        """Events of the begin and end of steps; numbers count from 1, since 0 ends a step."""
        rows = self.timeline.intervals
        steps = np.sort(rows[rows["phase"] == Phase.STEP], order=["rank", "start"])
        ranks, numbers = steps["rank"].tolist(), steps["step"].tolist()
        starts = (nanoseconds(steps["start"]) - self.origin).tolist()
        ends = (nanoseconds(steps["end"]) - self.origin).tolist()
        following = [*zip(ranks[1:], starts[1:], strict=True), (NONE, NONE)][: len(ranks)]
        for rank, number, start, end, then in zip(
            ranks, numbers, starts, ends, following, strict=True
        ):
            yield start, f"2:0:1:{rank + 1}:1:{start}:{STEP}:{number + 1}"
            if then != (rank, end):
                yield end, f"2:0:1:{rank + 1}:1:{end}:{STEP}:0"

    def _messages(self) -> Iterator[tuple[int, str]]:
        """The communication records: from the call of the send to the last byte's arrival."""
        messages = self.timeline.messages
        src, dst = messages["src"].astype(np.int64), messages["dst"].astype(np.int64)
        sent, received = nanoseconds(messages["sent"]), nanoseconds(messages["received"])
        out, called = self._ends(src, sent)
        into, posted = self._ends(dst, received - 1)
        columns = [src + 1, out, called, sent, dst + 1, into, posted, received]
        for one, thread, logical, left, other, its, ready, arrived, size in zip(
            *(column.tolist() for column in columns), messages["bytes"].tolist(), strict=True
        ):
            start = logical - self.origin
            yield (
                start,
                f"3:0:1:{one}:{thread}:{start}:{left - self.origin}"
                f":0:1:{other}:{its}:{ready - self.origin}:{arrived - self.origin}:{size}:0",
            )

    def _ends(self, ranks: Longs, at: Longs) -> tuple[Longs, Longs]:
        """The thread of each message's end, the first if none is busy, and its interval's begin."""
        number, begin = ends_on_tracks(self.visible, self.of_ranks, ranks, at)
        idle: Flags = number == NONE
        return np.where(idle, 1, number + 1), np.maximum(begin, self.origin)

    def labels(self) -> str:
        """The .pcf file: the meaning of the numbers."""
        lines = ["DEFAULT_OPTIONS", "", "LEVEL               THREAD", "UNITS               NANOSEC"]
        lines += ["", "DEFAULT_SEMANTIC", "", "THREAD_FUNC         State As Is", "", "STATES"]
        lines += [f"{number}    {label}" for number, label, _ in STATES]
        lines += ["", "STATES_COLOR"]
        lines += [f"{number}    {colour}" for number, _, colour in STATES]
        names = dict(enumerate(map(_label, self.timeline.names), start=1))
        calls = {value: label for value, label, _ in MPI_MESSAGES.values()}
        lines += _event(NAME, "What it is", names)
        lines += _event(STEP, "Training step, counted from 1", {})
        lines += _event(BYTES, "Bytes of the communication", {})
        lines += _event(POINT_TO_POINT, "MPI Point-to-point", calls)
        lines += _event(COLLECTIVE, "MPI Collective Comm", dict(MPI_COLLECTIVES.values()))
        return "\n".join(lines) + "\n"

    def rows(self) -> str:
        """The .row file: the names of the rows."""
        cpus = [f"{n}.{_label(h)}" for h, of in self.nodes.items() for n in range(1, len(of) + 1)]
        threads = []
        for rank in range(self.timeline.ranks):
            streams = [self.timeline.streams[track.stream] for track in self.of_ranks.get(rank, ())]
            threads += [f"rank {rank} {_label(stream)}" for stream in streams or ["not shown"]]
        levels = {
            "CPU": cpus,
            "NODE": [_label(host) for host in self.nodes],
            "TASK": [f"rank {rank}" for rank in range(self.timeline.ranks)],
            "THREAD": threads,
        }
        blocks = [
            "\n".join([f"LEVEL {level} SIZE {len(names)}", *names]) + "\n"
            for level, names in levels.items()
        ]
        return "\n".join(blocks)


def _event(kind: int, label: str, values: Mapping[int, str]) -> list[str]:
    lines = ["", "EVENT_TYPE", f"0    {kind}    {label}"]
    if values:
        lines += ["VALUES", "0    End"]
        lines += [f"{value}    {name}" for value, name in sorted(values.items())]
    return lines


def _label(text: str) -> str:
    """A label on one line: characters that would end it for a reader become spaces."""
    return " ".join(text.split()) or "unnamed"
