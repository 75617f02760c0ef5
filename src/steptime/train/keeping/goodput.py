"""Goodput: the share of a run's wall time in steps that count, over all its restarts.

A ledger divides the time of a run into causes, and every second goes to one of them. It lies in the
run's folder with an entry for each checkpoint, so that whoever goes on from one knows what was
spent up to it; all that came after it until now is lost.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.files import bounded_text, parsed_json, reading, write_json
from steptime.units import format_seconds

Cause: TypeAlias = Literal[
    "steps", "starting", "validation", "checkpoints", "skipped", "lost", "other"
]
"""Steps that count; before the first of them; held-out text; waiting for a checkpoint; steps whose
update was left out; what a restart or a rollback threw away, time in which nothing ran included."""

FILE = "goodput.json"

_TOLD: Mapping[str, str] = {
    "starting": "starting",
    "validation": "validation",
    "checkpoints": "waiting for checkpoints",
    "skipped": "skipped steps",
    "lost": "lost to restarts and rollbacks",
    "other": "other",
}
_LEAST_SHARE = 0.0005  # what is less is not told
_MOST_ENTRIES = 100


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds by cause, and the steps that were skipped."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    skipped_steps: int = 0

    def plus(self, cause: Cause, seconds: float) -> "Spent":
        """With so much more; a clock that was set back takes nothing away."""
        more = self.seconds.get(cause, 0.0) + max(0.0, seconds)
        return replace(
            self,
            seconds={**self.seconds, cause: more},
            skipped_steps=self.skipped_steps + (cause == "skipped"),
        )


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """Where the wall time of a run went: ``seconds`` by cause, which add up to ``wall_s``."""

    share: float
    wall_s: float
    seconds: Mapping[str, float]
    restarts: int
    rollbacks: int
    skipped_steps: int

    @property
    def sentence(self) -> str:
        """It in words, the largest loss first."""
        shares = {cause: self.seconds.get(cause, 0.0) / self.wall_s for cause in _TOLD}
        told = [cause for cause in shares if shares[cause] >= _LEAST_SHARE]
        told.sort(key=lambda cause: -shares[cause])
        parts = [f"{_TOLD[cause]} {100 * shares[cause]:.1f} %" for cause in told]
        rest = f"; {', '.join(parts)}" if parts else ""
        wall = format_seconds(self.wall_s)
        return f"goodput: {100 * self.share:.1f} % of {wall} in steps that count{rest}"


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """What had been spent at a time of day, when a checkpoint after ``step`` steps was taken."""

    step: int
    at: float
    spent: Spent = Spent()


@dataclass(frozen=True, kw_only=True)
class _Book:
    """The content of the file; its first entry is the begin of the run."""

    entries: tuple[_Entry, ...]
    restarts: int = 0
    rollbacks: int = 0


class Ledger:
    """The time of a run, charged as it passes.

    ``folder``: where it is kept over restarts, None where it is not. ``began``: when this process
    did, as ``time.time()`` counts.
    """

    def __init__(self, folder: Path | None, began: float) -> None:
        self._path = folder / FILE if folder else None
        kept = _read(self._path)
        self._book = (
            replace(kept, restarts=kept.restarts + 1)
            if kept
            else _Book(entries=(_Entry(step=0, at=began),))
        )
        self._spent = Spent()
        self._since = began

    def go_on_from(self, step: int) -> None:
        """Begin after a checkpoint of so many steps: what was spent later is lost."""
        entries = tuple(one for one in self._book.entries if one.step <= step)
        self._book = replace(self._book, entries=entries or self._book.entries[:1])
        last = self._book.entries[-1]
        self._spent = last.spent.plus("lost", self._since - last.at)
        self._save()

    def roll_back(self, step: int) -> None:
        """Begin again after a checkpoint of so many steps, in the same process."""
        self.charge("other")
        self._book = replace(self._book, rollbacks=self._book.rollbacks + 1)
        self.go_on_from(step)

    def charge(self, cause: Cause) -> None:
        """All time since the last charge went to ``cause``."""
        now = time.time()
        self._spent = self._spent.plus(cause, now - self._since)
        self._since = now

    def enter(self, step: int) -> None:
        """Note what has been spent, as a checkpoint after so many steps is taken."""
        first, *others = self._book.entries
        before = [one for one in others if one.step < step][-_MOST_ENTRIES:]
        entry = _Entry(step=step, at=self._since, spent=self._spent)
        self._book = replace(self._book, entries=(first, *before, entry))
        self._save()

    def closed(self) -> Goodput:
        """Where the time of the run went until now."""
        self.charge("other")
        seconds = self._spent.seconds
        wall_s = sum(seconds.values())
        return Goodput(
            share=seconds.get("steps", 0.0) / wall_s if wall_s else 0.0,
            wall_s=wall_s,
            seconds=seconds,
            restarts=self._book.restarts,
            rollbacks=self._book.rollbacks,
            skipped_steps=self._spent.skipped_steps,
        )

    def _save(self) -> None:
        """Keep the book; where that cannot be, the training goes on all the same."""
        if self._path:
            with suppress(OSError):
                write_json(self._path, asdict(self._book))


def process_began() -> float:
    """When this process did, as ``time.time()`` counts (proc(5): stat, uptime)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    running_s = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - running_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _read(path: Path | None) -> _Book | None:
    """The book in a file; None where there is none that can be read: no training fails for it."""
    if path is None or not path.exists():
        return None
    with suppress(UsageError), reading(path, "ledger"):
        book = parsed_json(bounded_text(path, "ledger"), _Book)
        return book if book.entries else None
    return None
