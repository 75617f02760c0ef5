"""The folder a run leaves: whole files or none."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.files import bounded_bytes, parsed_json, reading, write_json
from steptime.runs.environment import VERSION, environment

__all__ = [
    "RECORD",
    "TRACE",
    "create",
    "created",
    "default_path",
    "environment",
    "read_record",
    "write_record",
]

RECORD = "run.json"
TRACE = "trace.json.gz"
_MOST_BYTES = 1 << 30


def default_path(verb: str, now: datetime) -> Path:
    """Where a run goes when ``--out`` is not given: ``runs/<verb>-<time>``."""
    return Path("runs") / f"{verb}-{now:%Y%m%d-%H%M%S}"


def launcher_path(verb: str) -> Path:
    """The default that all ranks of a launcher on this host agree on: by when that was started."""
    started = Path(f"/proc/{os.getppid()}").stat().st_ctime
    return default_path(verb, datetime.fromtimestamp(started))


def create(path: Path) -> Path:
    """Make the run directory, parents included, and prove that it can be written.

    Raises UsageError when it cannot.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write to the output folder {path}: {error.strerror}; choose another with --out"
        ) from None
    return path


@contextmanager
def created(path: Path) -> Iterator[Path]:
    """The run directory while the block lasts, which fills it; raises what ``create`` does.

    What is made for it and is still empty in the end goes again: a run that fails leaves no folder.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    try:
        yield create(path)
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def write_record(run: Path, record: Mapping[str, Any]) -> None:
    """Write ``record`` as the run.json of the folder ``run``, atomically."""
    write_json(run / RECORD, record)


def read_record(run: Path) -> dict[str, Any]:
    """What the run.json of the folder ``run`` holds.

    Raises UsageError when there is no such folder or file, and when it is truncated, another
    program's, or newer than this code.
    """
    path = run / RECORD
    if not path.exists():
        what = "has no run.json: it is no run, or one that did not end"
        raise UsageError(f"{run} {what if run.is_dir() else 'is no folder'}")
    content = bounded_bytes(path, "record of a run", _MOST_BYTES)
    with reading(path, "record of a run", "run steptime again"):
        record: dict[str, Any] = parsed_json(content, dict)
        if "verb" not in record:
            raise UsageError(f"{path} is not steptime's: give the folder of a run")
        written_as = record.get("environment", {}).get("format", 1)
        if written_as > VERSION:
            raise UsageError(
                f"{path} has format {written_as} and this steptime reads up to {VERSION}: use a "
                "newer steptime"
            )
    return record
