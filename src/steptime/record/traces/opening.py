"""Opening a trace: one file or several, of one rank or of many, whatever its format."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from steptime.discovery import members
from steptime.errors import UsageError
from steptime.files import reading
from steptime.limits import MOST_BYTES, MOST_RANKS
from steptime.record.start import FOLDER
from steptime.record.traces.bytes_told import with_told_bytes
from steptime.record.traces.document import Document
from steptime.record.traces.format import Format
from steptime.record.traces.trace import RankTrace

_MOST_FILES = 1 << 14
_MOST_NANOSECONDS = 1 << 62  # since 1970: until the year 2116
_RANK = re.compile(r"rank[-_ .]?(\d+)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)(?=\D*$)")


@dataclass(frozen=True, eq=False)
class Trace:
    """A job as traces of its ranks tell it, in order of rank; ``format``: what these are called."""

    name: str
    format: str
    ranks: Sequence[RankTrace]

    @property
    def world_size(self) -> int:
        """How many ranks the job had, as far as the traces tell."""
        return max(max(one.world_size, one.rank + 1) for one in self.ranks)

    @property
    def untold(self) -> list[str]:
        """What the traces do not tell, in half sentences."""
        told = dict.fromkeys(word for one in self.ranks for word in one.untold)
        calls = (call for one in self.ranks for call in one.calls)
        silent = sorted({call.kind for call in calls if not call.nbytes} - {"barrier"})
        if silent:
            told[f"the bytes of {', '.join(silent)}"] = None
        missing = self.world_size - len(self.ranks)
        if missing:
            told[f"what {missing} of {self.world_size} ranks did"] = None
        return list(told)


def may_be_trace(path: Path) -> bool:
    """Whether a path is a file, or a folder that is no run and has a file that begins as traces do.

    Nothing but the beginnings of the files is read.
    """
    if path.is_file():
        return True
    if (path / "run.json").exists() or (path / FOLDER).is_dir():
        return False
    return begins_as_trace(path)


def begins_as_trace(path: Path) -> bool:
    """Whether a file, or a file of a folder, begins as a trace of some format does."""
    documents = map(Document, _files([path])) if path.exists() else ()
    return any(one.is_database or one.is_pickle or one.may_be_json for one in documents)


def is_trace_file(path: Path) -> bool:
    """Whether a path is a file that a format recognises; one that cannot be read is none."""
    try:
        return path.is_file() and bool(_recognised([Document(path)]))
    except UsageError:
        return False


def open_trace(paths: Sequence[Path], *, unpickle: bool = False) -> Trace:
    """The trace in some files or folders, one file a rank unless a file tells of several.

    A rank is what the content says, else the file's name: rank3.json. ``unpickle``: read pickled
    dumps too, by an unpickler that makes nothing but plain values. Raises UsageError where there is
    no trace, several formats, a rank twice, or a file that is cut off, too large or not as its
    format has it.
    """
    found = _recognised([Document(file, unpickle) for file in _files(paths)])
    if not found:
        raise UsageError(
            f"{_named(paths)} is no trace of a format that steptime reads: give one of "
            "torch.profiler or Chrome, a dump of the flight recorder, or an export of Nsight "
            "Systems to SQLite"
        )
    names = list(dict.fromkeys(one.name for _, one in found))
    if len(names) > 1:
        raise UsageError(
            f"{_named(paths)} holds {' and '.join(f'a {name}' for name in names)}: name the files "
            "of one of them"
        )
    ranks = [rank for document, one in found for rank in _read(document, one, len(found))]
    if not ranks:
        raise UsageError(f"{_named(paths)} holds no events of any rank")
    return Trace(_name(paths), names[0], with_told_bytes(_in_order(ranks, paths)))


def _named(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _name(paths: Sequence[Path]) -> str:
    """The name of a folder, or of a file without its endings."""
    first = paths[0].resolve()
    folder = first if first.is_dir() else first.parent
    one_file = len(paths) == 1 and not first.is_dir()
    return (first.name.partition(".")[0] if one_file else folder.name) or "trace"


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(one for one in path.iterdir() if one.is_file())
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"there is no file or folder {path}: name a trace")
    if len(files) > _MOST_FILES:
        raise UsageError(
            f"there are {len(files):,} files: name the traces, at most {_MOST_FILES:,}"
        )
    return files


def _recognised(documents: Sequence[Document]) -> list[tuple[Document, Format]]:
    """Those that are traces, each with its format; raises UsageError where one is cut off."""
    formats = sorted(
        members("steptime.record.traces.formats", "FORMAT", Format), key=lambda one: one.order
    )
    found = []
    for document in documents:
        if document.is_ours:
            raise UsageError(
                f"{document.path} is part of a run of steptime: name its folder, with its run.json"
            )
        known = next((one for one in formats if one.recognises(document)), None)
        if known is not None:
            found.append((document, known))
    return found


def _read(document: Document, one: Format, files: int) -> list[RankTrace]:
    """The ranks of a document; one that its content does not number is what its name says."""
    path = document.path
    with reading(path, one.name):
        ranks = one.read(document)
        for rank in ranks:
            _check(rank)
    return [one if one.rank >= 0 else replace(one, rank=_of_name(path, files)) for one in ranks]


def _check(one: RankTrace) -> None:
    """Raise ValueError where a rank, a time or a size is one that no job has."""
    if max(one.rank, one.world_size) > MOST_RANKS:
        raise ValueError(f"it is of rank {one.rank} of {one.world_size}")
    times = [(span.begin, span.end) for span in one.spans]
    times += [(step.begin, step.end) for step in one.steps]
    times += [(call.begin, call.end) for call in one.calls]
    for begin, end in times:
        if not -_MOST_NANOSECONDS < begin <= end < _MOST_NANOSECONDS:
            raise ValueError(f"it has an event from {begin} to {end} ns")
    for call in one.calls:
        if call.nbytes > MOST_BYTES or abs(call.peer) > MOST_RANKS:
            raise ValueError(f"it has a {call.kind} of {call.nbytes} bytes with {call.peer}")
        if call.issued >= _MOST_NANOSECONDS or any(rank > MOST_RANKS for rank in call.group.ranks):
            raise ValueError(f"it has a {call.kind} of a group or a time that no job has")


def _of_name(path: Path, files: int) -> int:
    """The rank that a file's name says; 0 of a single file that says none."""
    said = _RANK.search(path.name) or (_LAST_NUMBER.search(path.stem) if files > 1 else None)
    if said is not None and int(said[1]) < MOST_RANKS:
        return int(said[1])
    if files == 1:
        return 0
    raise UsageError(
        f"{path} does not tell of which rank it is: put that into its name, as rank0.json"
    )


def _in_order(ranks: Sequence[RankTrace], paths: Sequence[Path]) -> list[RankTrace]:
    ordered = sorted(ranks, key=lambda one: one.rank)
    for one, following in pairwise(ordered):
        if one.rank == following.rank:
            raise UsageError(
                f"{_named(paths)} holds two traces of rank {one.rank}: name one of each rank"
            )
    return ordered
