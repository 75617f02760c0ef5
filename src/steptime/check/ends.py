"""How the processes of a job ended, as whoever started them writes it down for the judges."""

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_bytes, parsed_json
from steptime.record.events import EVENTS
from steptime.record.read import read_log
from steptime.record.start import FOLDER

_EXIT = ".exit"
"""How the file of a process ends that says how it ended."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: its rank, its code, None where it was stopped from outside, and when."""

    rank: int
    code: int | None
    wall_ns: int


def note_end(
    folder: Path, pid: int, code: int | None, wall_ns: int, rank: int | None = None
) -> None:
    """Write down how a process ended, for whoever judges the job in that folder.

    ``rank``: None where it is that which the process itself has written down.
    """
    content = {"rank": rank, "code": code, "wall_ns": wall_ns}
    with suppress(OSError):
        path = folder / FOLDER / f"{socket.gethostname()}-{pid}{_EXIT}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def ends_in(folder: Path) -> dict[Path, Ended]:
    """How the processes of a job ended, by the notes in the folder of its logs."""
    found: dict[Path, Ended] = {}
    for file in folder.glob(f"*{_EXIT}"):
        with suppress(UsageError, ValueError):
            raw = parsed_json(bounded_bytes(file, "note of a process's end", 1 << 12), dict)
            rank = raw["rank"] if raw["rank"] is not None else _rank(file.with_suffix(EVENTS))
            if rank is not None:
                found[file] = Ended(rank, raw["code"], raw["wall_ns"])
    return found


def _rank(file: Path) -> int | None:
    """That which a process was; None where it was none."""
    log = read_log(file)
    return log.rank if log.groups else None
