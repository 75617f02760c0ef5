"""Process: whether another process of this host still lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process by its id and its start time, which tells it from a later one with the same id."""

    pid: int
    start: int
    """Ticks since the host was booted."""

    def lives(self) -> bool:
        """Whether it still runs; a killed process that nobody has waited for does not."""
        return started(self.pid) == self.start


def started(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None where no such process runs."""
    try:
        # The name before the last parenthesis may hold anything; see proc_pid_stat(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
