"""The folder a run leaves: whole files or none, and where, when and with what it was made."""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steptime import __version__
from steptime.errors import UsageError
from steptime.files import write_json

RECORD = "run.json"
RECORD_FORMAT = 1
"""Of what ``environment`` stamps into run.json; a newer one is refused."""


def default_path(verb: str, now: datetime) -> Path:
    """Where a run goes when ``--out`` is not given: ``runs/<verb>-<time>``."""
    return Path("runs") / f"{verb}-{now:%Y%m%d-%H%M%S}"


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


def write_record(run: Path, record: Mapping[str, Any]) -> None:
    """Write ``record`` as the run.json of the folder ``run``, atomically."""
    write_json(run / RECORD, record)


def read_record(run: Path) -> dict[str, Any]:
    """What the run.json of the folder ``run`` holds.

    Raises UsageError when there is no such folder or file, and when it is truncated, another
    program's, or newer than this code.
    """
    path = run / RECORD
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        what = "has no run.json: it is no run, or one that did not end"
        raise UsageError(f"{run} {what if run.is_dir() else 'is no folder'}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}; run steptime again") from None
    if not isinstance(record, dict) or "verb" not in record:
        raise UsageError(f"{path} is not steptime's: give the folder of a run")
    written_as = record.get("environment", {}).get("format", 1)
    if written_as > RECORD_FORMAT:
        raise UsageError(
            f"{path} has format {written_as} and this steptime reads up to {RECORD_FORMAT}: use a "
            "newer steptime"
        )
    return record


def environment() -> dict[str, Any]:
    """What a figure depends on: when, machine, versions and the command that was typed."""
    return {
        "format": RECORD_FORMAT,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["steptime", *sys.argv[1:]],
        "host": platform.node(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "steptime": __version__,
        "versions": {name: _version(name) for name in ("torch", "numpy")},
        "git_revision": _git_revision(Path(__file__).parent),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_revision(folder: Path) -> str | None:
    """The revision steptime itself runs from, or None where it is installed, not checked out."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
