"""Telling whether another process of this host still lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process; the time of its start tells it from a later one with the same number."""

    pid: int
    start: int
    """Ticks since the host was booted."""

    def lives(self) -> bool:
        """Whether it still runs; one that was killed and not yet waited for does not."""
        return started(self.pid) == self.start


def started(pid: int) -> int | None:
    """When the process was started; None where there is none that runs."""
    try:
        # The name before the last parenthesis may hold anything; see proc_pid_stat(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
