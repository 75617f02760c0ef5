"""Reading what processes wrote down: of one that runs, that ended, or that was killed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.files import bounded_bytes, parsed_json, reading
from steptime.record.device_times import device_times, read_marks
from steptime.record.events import DEVICE, EVENTS, MARK, MOST_EVENTS, NOTES, OPERATORS, TIMES, Kind
from steptime.record.rows import EVENT
from steptime.record.start import FOLDER

_MOST_NOTES = 1 << 26
_MOST_OPERATORS = 1 << 28


@dataclass(frozen=True)
class Group:
    """A process group as one of its ranks saw it: its name, its backend, the ranks of the world.

    ``torch_name``: what torch calls it, where ``name`` may be a description that several have.
    ``axis``: that of the DeviceMesh that made it, which is its name then.
    """

    name: str
    backend: str
    ranks: tuple[int, ...]
    torch_name: str = ""
    axis: str = ""

    @property
    def on_gloo(self) -> bool:
        """Whether gloo makes all of its calls, and NCCL none of those on a GPU."""
        return "gloo" in self.backend and not self.on_nccl

    @property
    def on_nccl(self) -> bool:
        """Whether NCCL makes calls of it."""
        return "nccl" in self.backend


@dataclass(frozen=True)
class Site:
    """A place in the code, and the line of an installed package that called there for it, if any.

    ``via``: that line, as in ``/lib/site-packages/deepspeed/runtime/engine.py:2519``.
    """

    file: str
    line: int
    function: str
    via: str = ""

    def __str__(self) -> str:
        return line_named(self.file, self.line, self.via)


def line_named(file: str, line: int, via: str = "") -> str:
    """A place in short: ``train.py:18``, or ``train.py:18 via engine.py:2519``."""
    return f"{_short(file)}:{line}{f' via {_short(via)}' if via else ''}"


def _short(file: str) -> str:
    """The name of a file, with its folder's where packages have many of that name."""
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if path.name.startswith("__init__") else path.name


@dataclass(frozen=True)
class Signature:
    """What a call is called with: the dtype of its first tensor, the shapes of those that count.

    ``reduction``: how they are reduced, as "sum"; empty where they are not, or where it is not
    known. ``tag``: that of a message. ``sends`` and ``receives``: how many elements an all_to_all
    sends to each rank of its group and expects from each; empty where it splits evenly.
    """

    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    contiguous: bool
    reduction: str = ""
    tag: int = 0
    sends: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()


@dataclass(frozen=True)
class Observation:
    """What an observer of ``check`` noted in a process: ``what`` it is, and the facts of it."""

    what: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Raised:
    """The exception that ended a process or thread, and the innermost place of the script in it.

    ``at_ns``: when, by the process's own clock. ``site`` is None where no line of the script did.
    """

    kind: str
    message: str
    at_ns: int
    site: Site | None

    def __str__(self) -> str:
        return f"{self.kind} at {self.site}" if self.site else self.kind


@dataclass(frozen=True)
class ProfiledOperator:
    """An operator or kernel that torch.profiler saw, in nanoseconds of the process's own clock."""

    name: str
    on_device: bool
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessLog:
    """What one process wrote down: ``events`` of dtype EVENT in order of their issue.

    ``rank`` and ``world_size`` are those of the default group, 0 and 1 where there was none.
    ``clock_ns`` and ``wall_ns`` are the two clocks of its host at one moment. ``ended``: its
    recording ended in an orderly way, at ``ended_ns`` of its clock. ``raised``: what nobody caught.
    ``thread_raised``: what ended one of its threads, while it went on. ``forked_from``: the process
    whose recording it began as a fork of.
    """

    host: str
    pid: int
    command: tuple[str, ...]
    rank: int
    world_size: int
    threads: int | None
    clock_ns: int
    wall_ns: int
    ended: bool
    events: NDArray[np.void]
    groups: Mapping[int, Group] = field(default_factory=dict)
    sites: Mapping[int, Site] = field(default_factory=dict)
    signatures: Mapping[int, Signature] = field(default_factory=dict)
    ended_ns: int | None = None
    raised: Raised | None = None
    thread_raised: Raised | None = None
    operators: Sequence[ProfiledOperator] = ()
    observed: tuple[Observation, ...] = ()
    forked_from: int | None = None
    marks: NDArray[np.void] = field(default_factory=lambda: np.empty(0, MARK))
    """When its GPU came to what is in ``events``, which go by the clock of the script."""

    @property
    def last(self) -> int:
        """The last moment that it wrote down, in nanoseconds of its clock; 0 where it did not."""
        return int(max(self.events[time].max(initial=0) for time in TIMES))

    def by_wall(self, moment: int) -> int:
        """A moment of its clock by the wall clock of its host, in nanoseconds."""
        return moment - self.clock_ns + self.wall_ns

    @property
    def calls(self) -> NDArray[np.void]:
        """Its calls alone."""
        events: NDArray[np.void] = self.events
        return np.asarray(events[events["kind"] == Kind.CALL])


def read_logs(run: Path) -> list[ProcessLog]:
    """The logs of a recorded run by rank; of a run with nothing distributed, that of its script.

    Of a rank that was started anew the last one counts. What a GPU did is told by its own clock.
    Raises UsageError where there is none.
    """
    logs = [_by_gpu(read_log(file)) for file in sorted((run / FOLDER).glob(f"*{EVENTS}"))]
    helpers = helpers_in(logs)
    logs = [log for log in logs if len(log.events) and log not in helpers]
    ranks = [log for log in logs if log.groups] or logs[:1]
    if not ranks:
        raise UsageError(
            f"{run} holds no events of a script: none of its processes trained or communicated"
        )
    by_rank = {log.rank: log for log in sorted(ranks, key=lambda log: log.wall_ns)}
    return [by_rank[rank] for rank in sorted(by_rank)]


def helpers_in(logs: Sequence[ProcessLog]) -> list[ProcessLog]:
    """Those that a rank forked and that call in its groups, as a DataLoader's worker may.

    They are no ranks.
    """
    by_process = {(log.host, log.pid): _groups_of(log) for log in logs}
    return [
        log
        for log in logs
        if _groups_of(log) & by_process.get((log.host, log.forked_from or -1), frozenset())
    ]


def _groups_of(log: ProcessLog) -> frozenset[tuple[str, tuple[int, ...]]]:
    return frozenset((group.torch_name, group.ranks) for group in log.groups.values())


def _by_gpu(log: ProcessLog) -> ProcessLog:
    events = device_times(log.events, log.marks)
    return replace(log, events=events[np.argsort(events["issued"], kind="stable")])


def read_log(file: Path) -> ProcessLog:
    """The log of one process, by its file of events; UsageError where it cannot be read.

    It may still be written: every event that is read has its notes.
    """
    content = bounded_bytes(file, "recording", MOST_EVENTS * EVENT.itemsize)
    text = bounded_bytes(file.with_suffix(NOTES), "notes of a recording", _MOST_NOTES)
    notes = [_note(line) for line in text.splitlines()]
    header = notes[0] if notes else {}
    events = np.frombuffer(content[: len(content) // EVENT.itemsize * EVENT.itemsize], EVENT)
    groups = [note for note in notes if "group" in note]
    ends = [note for note in notes if "end" in note]
    with reading(file.with_suffix(NOTES), "notes of a recording", "record the script again"):
        events = _with_sources(events, notes)
        events["number"] = np.arange(len(events))
        events = events[events["kind"] != 0]
        sites = {
            note["site"]: Site(
                note["file"],
                note["line"],
                note["function"],
                ":".join(map(str, note.get("via", ()))),
            )
            for note in notes
            if "site" in note
        }
        raised, of_thread = (
            [_raised(note, note[what], sites) for note in notes if what in note]
            for what in ("raised", "thread_raised")
        )
        return ProcessLog(
            host=str(header["host"]),
            pid=int(header["pid"]),
            command=tuple(header["command"]),
            clock_ns=int(header["clock_ns"]),
            wall_ns=int(header["wall_ns"]),
            rank=int(groups[-1]["world_rank"]) if groups else 0,
            world_size=int(groups[-1]["world_size"]) if groups else 1,
            threads=int(groups[-1]["threads"]) if groups else None,
            forked_from=header.get("forked_from"),
            ended=bool(ends),
            ended_ns=ends[-1].get("at_ns") if ends else None,
            raised=raised[-1] if raised else None,
            thread_raised=of_thread[-1] if of_thread else None,
            events=events[np.argsort(events["issued"], kind="stable")],
            groups={note["group"]: _group(note) for note in groups},
            sites=sites,
            marks=read_marks(file.with_suffix(DEVICE)),
            operators=_operators(file.with_suffix(OPERATORS)),
            signatures={
                note["signature"]: _signature(note) for note in notes if "signature" in note
            },
            observed=tuple(
                Observation(note["observed"], note) for note in notes if "observed" in note
            ),
        )


def _with_sources(events: NDArray[np.void], notes: Sequence[Mapping[str, Any]]) -> NDArray[np.void]:
    """Events by their numbers, with the peers of which is known only since they are done."""
    sources = [(note["event"], note["source"]) for note in notes if "source" in note]
    events = events.copy()
    for number, source in sources:
        if 0 <= number < len(events):  # a recording that was cut short may lack the event
            events["peer"][number] = source
    return events


def _note(line: bytes) -> dict[str, Any]:
    """A line of notes; nothing where the process was killed while it wrote it."""
    with suppress(ValueError):
        note: Any = parsed_json(line)
        return note if isinstance(note, dict) else {}
    return {}


def _operators(file: Path) -> list[ProfiledOperator]:
    if not file.exists():
        return []
    with reading(file, "operators of a recording", "record the script again"):
        found: Any = parsed_json(bounded_bytes(file, "operators", _MOST_OPERATORS))
        return [
            ProfiledOperator(found["names"][name], bool(device), int(begin), int(end))
            for name, device, begin, end in found["rows"]
        ]


def _group(note: Mapping[str, Any]) -> Group:
    described = note["description"]
    # A DeviceMesh describes the group of its axis "dp" as "mesh_dp".
    axis = described.removeprefix("mesh_") if described.startswith("mesh_") else ""
    name = axis or described or note["name"]
    return Group(name, note["backend"], tuple(note["ranks"]), note["name"], axis)


def _raised(note: Mapping[str, Any], kind: str, sites: Mapping[int, Site]) -> Raised:
    return Raised(kind, note["message"], note["at_ns"], sites.get(note["at"]))


def _signature(note: Mapping[str, Any]) -> Signature:
    shapes = tuple(tuple(shape) for shape in note["shapes"])
    return Signature(
        note["dtype"],
        shapes,
        note["contiguous"],
        note.get("reduction", ""),
        note.get("tag", 0),
        tuple(note.get("sends", ())),
        tuple(note.get("receives", ())),
    )


def first_world(logs: Sequence[ProcessLog]) -> int:
    """How many ranks the job had."""
    return max(log.world_size for log in logs)
