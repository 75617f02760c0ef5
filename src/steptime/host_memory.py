"""Host memory: how much of it this process may still take."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from steptime.errors import SteptimeError, UsageError
from steptime.units import format_bytes

CGROUPS = Path("/sys/fs/cgroup")
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def available_bytes() -> int:
    """The memory available on the host or, where that is less, in this process's cgroups.

    More than any machine has where the system reports neither.
    """
    try:
        return min([_available_on_host(), *_left_by_cgroups()])
    except OSError:
        return sys.maxsize


def require_memory(
    size: float, what: str, remedy: str, error: type[SteptimeError] = UsageError
) -> None:
    """Raise ``error`` when ``what`` takes ``size`` bytes and this process may not take so many."""
    available = available_bytes()
    if size > available:
        raise error(
            f"{what} needs {format_bytes(size)} of memory and this process may take only "
            f"{format_bytes(available)} more: {remedy}"
        )


def resident_bytes() -> int:
    """The memory of this process, shared memory included; 0 where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _available_on_host() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _left_by_cgroups() -> list[int]:
    """The memory left in each cgroup of this process, up to the root, in cgroups v1 or v2."""
    left = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        leaf = CGROUPS / controllers / path.lstrip("/")
        for folder in (leaf, *leaf.parents):
            if not folder.is_relative_to(CGROUPS):
                break
            left += [_left(folder / limit, folder / used) for limit, used in _FILES]
    return [size for size in left if size is not None]


def _left(limit: Path, used: Path) -> int | None:
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return None
