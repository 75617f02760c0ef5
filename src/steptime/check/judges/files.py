"""Files: ranks of a host that write one file at a time, or read what another is writing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steptime.check.finding import CallSite, Finding, FindingKind, on_rank
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
from steptime.check.words import do, ranks_named
from steptime.record.read import ProcessLog

_FILE, _BEGUN, _REMOVED = "file", "saving", "removed"
_SOON_NS = int(1e9)
"""Two that write the same file so soon after each other do so at once, but for chance."""

_OFTEN = 2
"""Times that a rank writes a file and reads it, by which its turns are known."""


@dataclass(frozen=True)
class _Use:
    """A rank saves a file, or loads it, from ``begin`` to ``end`` in ns of the wall clock."""

    rank: int
    writes: bool
    begin: int
    end: int
    places: Sequence[CallSite]


def _files(job: Job) -> Iterator[Finding]:
    """For each file the first time that ranks are in each other's way there."""
    for path, uses in _by_file(job).items():
        written = [one for one in uses if one.writes]
        for one in written:
            others = [other for other in written if _meet(one, other, _SOON_NS)]
            readers = [use for use in uses if not use.writes and _meet(one, use, 0)]
            if others:
                yield _written_by([one, *others], path)
                break
            if readers:
                yield _read_by(readers, one, path)
                break
        else:
            yield from _read_too_soon(uses, path)
    for log in job.logs:
        yield from _missed(log, job)


def _missed(log: ProcessLog, job: Job) -> Iterator[Finding]:
    """A rank ended for want of a file that another had removed by then, or began to save."""
    missed = _file_wanted(log)
    if missed is None or log.raised is None:
        return
    at_ns = log.by_wall(log.raised.at_ns)
    for other in job.logs:
        if other.rank == log.rank or other.host != log.host:
            continue
        since = other.clock_ns - other.wall_ns
        removed = [
            facts
            for facts in facts_of(other, _REMOVED)
            if Path(facts["path"]) in [missed, *missed.parents] and facts["at_ns"] - since < at_ns
        ]
        saved = [facts for facts in facts_of(other, _BEGUN) if facts["path"] == str(missed)]
        if not removed and (not saved or saved[0]["at_ns"] - since < at_ns - _SOON_NS):
            continue
        does = "has removed" if removed else "only then saves"
        mine = [on_rank(log.rank, log.raised.site)] if log.raised.site else []
        yield Finding(
            kind=FindingKind.RACE,
            ranks=[log.rank],
            places=[*mine, *places_of(other, (removed or saved)[-1]["at"])],
            what=f"rank {log.rank} looks for {missed.name}, which rank {other.rank} {does}",
            mend=f"put a barrier between the {'loading' if removed else 'saving'} and the "
            f"{'removal' if removed else 'loading'}",
        )
        return


def _file_wanted(log: ProcessLog) -> Path | None:
    """The file for want of which a rank ended."""
    if log.raised is None or log.raised.kind.rpartition(".")[2] != FileNotFoundError.__name__:
        return None
    path = log.raised.message.rpartition(": ")[2].strip("'\"")
    return Path(path).resolve() if path else None


def _meet(one: _Use, other: _Use, apart: int) -> bool:
    """Whether another rank uses a file at the same time, or at most so many ns later or before."""
    soon = one.begin <= other.end + apart and other.begin <= one.end + apart
    return one.rank != other.rank and soon


def _by_file(job: Job) -> Mapping[str, Sequence[_Use]]:
    """What ranks do with each file of a host, in the order of time."""
    uses: dict[tuple[str, str], list[_Use]] = {}
    for log in job.logs:
        offset = log.wall_ns - log.clock_ns
        for facts in facts_of(log, _FILE):
            of_file = uses.setdefault((log.host, facts["path"]), [])
            begin, end = facts["begin_ns"] + offset, facts["end_ns"] + offset
            places = places_of(log, facts["at"])
            of_file.append(_Use(log.rank, facts["writes"], begin, end, places))
    return {path: sorted(_told(of), key=lambda one: one.begin) for (_, path), of in uses.items()}


def _told(uses: Sequence[_Use]) -> Iterator[_Use]:
    """Without the openings, which take no time, of what the same rank then saves by torch.save."""
    for use in uses:
        saves = (one for one in uses if one.rank == use.rank and one.writes and one is not use)
        opens = use.begin == use.end
        if not (opens and any(one.begin - _SOON_NS <= use.begin < one.end for one in saves)):
            yield use


def _written_by(uses: Sequence[_Use], path: str) -> Finding:
    ranks = sorted({one.rank for one in uses})
    return Finding(
        kind=FindingKind.RACE,
        ranks=ranks,
        places=_places(uses),
        what=f"{ranks_named(ranks)} write the same file {_name(path)}, "
        "at once or right after one another: what is in it may be parts of each, which cannot be "
        "loaded",
        mend="save it on one rank alone, if dist.get_rank() == 0, with a barrier before the others "
        "read it; or give each rank a name of its own",
    )


def _read_by(readers: Sequence[_Use], writer: _Use, path: str) -> Finding:
    ranks = sorted({one.rank for one in readers})
    return Finding(
        kind=FindingKind.RACE,
        ranks=ranks,
        places=_places([*readers, writer]),
        what=f"{do(ranks, 'reads')} {_name(path)} while rank {writer.rank} writes it",
        mend="put a barrier between the saving and the loading",
    )


def _read_too_soon(uses: Sequence[_Use], path: str) -> Iterator[Finding]:
    """The first reading of a file by a rank before the writing that it is of.

    Which one that is the rank tells that writes and reads in turn: its own readings follow.
    """
    of_rank: dict[int, list[_Use]] = {}
    for one in uses:
        of_rank.setdefault(one.rank, []).append(one)
    for writer in of_rank.values():
        in_turn = [one.writes for one in writer] == [True, False] * (len(writer) // 2)
        if not in_turn or len(writer) < _OFTEN * 2:
            continue
        for reader in of_rank.values():
            alone = not any(one.writes for one in reader) and 2 * len(reader) == len(writer)
            for read, written in zip(reader, writer[::2], strict=False) if alone else ():
                if read.end < written.begin:
                    yield Finding(
                        kind=FindingKind.RACE,
                        ranks=[read.rank],
                        places=_places([read, written]),
                        what=f"rank {read.rank} reads {_name(path)} before rank {written.rank} "
                        "has written it anew, and goes on with what was there before",
                        mend="put a barrier of its own, as dist.barrier(), between each saving and "
                        "its loading, and one between the loading and the next saving",
                    )
                    return


def _places(uses: Sequence[_Use]) -> list[CallSite]:
    """Where each rank does so, once."""
    return list(dict.fromkeys(place for one in uses for place in one.places))


def _name(path: str) -> str:
    return Path(path).name


JUDGE = Judge(_files)
