"""Locks of files: which rank waits for one that another holds, as the kernel knows it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steptime.check.stacks import main_frames

_LOCKS = Path("/proc/locks")
_ASKS_AGAIN = "/site-packages/filelock/"
"""A package that asks for a lock again and again, so that the kernel knows of nobody who waits."""

_NAMED = ".lock"


@dataclass(frozen=True)
class LockWait:
    """A rank waits for the lock of a file, which another rank of its host holds."""

    rank: int
    holder: int
    path: str


def lock_waits(ranks: Mapping[int, int], stacks: Mapping[int, str]) -> list[LockWait]:
    """The waits of processes of this host, given by their ranks; none where nobody can say.

    ``stacks``: Python's, by rank. Who asks for a lock again and again is taken to ask for that of
    the one other rank which holds one of a file that is named as locks are.
    """
    with suppress(OSError):
        held, waited = _locks(_LOCKS.read_text())
        holders = {inode: ranks[pid] for inode, pid in held.items() if pid in ranks}
        paths = {inode: _path(held[inode], inode) for inode in holders}
        waits = {ranks[pid]: inode for pid, inode in waited if pid in ranks and inode in holders}
        for rank, text in stacks.items():
            if any(_ASKS_AGAIN in frame.file for frame in main_frames(text)):
                others = [
                    inode
                    for inode, holder in holders.items()
                    if holder != rank and paths[inode].endswith(_NAMED)
                ]
                if len({holders[inode] for inode in others}) == 1:
                    waits.setdefault(rank, others[-1])
        return [
            LockWait(rank, holders[inode], paths[inode])
            for rank, inode in sorted(waits.items())
            if holders[inode] != rank
        ]
    return []


def _locks(text: str) -> tuple[dict[str, int], list[tuple[int, str]]]:
    """Who holds the lock of each file, by its device and inode, and who waits for which."""
    held: dict[str, int] = {}
    waited: list[tuple[int, str]] = []
    for line in text.splitlines():
        words = line.split()[1:]
        waits = words[:1] == ["->"]
        if len(words) < 5 + waits:
            continue
        pid, inode = words[3 + waits : 5 + waits]
        if waits:
            waited.append((int(pid), inode))
        else:
            held[inode] = int(pid)
    return held, waited


def _path(pid: int, inode: str) -> str:
    """The file of an inode, among those that a process has open."""
    number = int(inode.rpartition(":")[2])
    for file in _open_files(pid):
        with suppress(OSError):
            if file.stat().st_ino == number:
                return str(file.readlink())
    return ""


def _open_files(pid: int) -> Iterator[Path]:
    with suppress(OSError):
        yield from Path(f"/proc/{pid}/fd").iterdir()
