"""What the figures of a run depend on beside what ran: machine, versions, command, and the load."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from steptime import emulated
from steptime.emulated import Emulated
from steptime.version import __version__

ALWAYS: Mapping[str, Any] = {"always": True}
"""Metadata of a field that JSON holds even where nothing is known of it."""

VERSION = 2
"""Of run.json: 2 since it holds the specification of the step, and a proxy's step as any other."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """How busy the machine was, in runnable processes, means of the last 1 and 5 minutes.

    ``own``: so many of them this run caused itself: its ranks, each with its threads.
    """

    last_minute: float
    last_5_minutes: float
    own: int


@dataclass(frozen=True, kw_only=True)
class Environment:
    """When, where and with what a record was made; ``format`` is the version of the record."""

    format: int = 1
    time: str
    command: Sequence[str] = ()
    host: str = ""
    machine: str = ""
    cpu: str = "unknown"
    cores: int = 0
    kernel: str = ""
    python: str = ""
    steptime: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    git_revision: str | None = field(default=None, metadata=ALWAYS)
    load: Load | None = None
    emulated: Emulated | None = None
    """The cluster whose hosts and links this machine played, where it did."""


def here(own: int = 1) -> Environment:
    """The environment of here and now, in which this run has ``own`` runnable processes."""
    return Environment(
        format=VERSION,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        command=["steptime", *sys.argv[1:]],
        host=platform.node(),
        machine=platform.machine(),
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        python=platform.python_version(),
        steptime=__version__,
        versions={name: _version(name) for name in ("torch", "numpy")},
        git_revision=_git_revision(Path(__file__).parent),
        load=_load(own),
        emulated=emulated.here(),
    )


def environment(own: int = 1) -> dict[str, Any]:
    """The same as run.json has it."""
    return asdict(here(own))


def _load(own: int) -> Load | None:
    try:
        minute, five, _ = os.getloadavg()
    except OSError:
        return None
    return Load(last_minute=minute, last_5_minutes=five, own=own)


@cache
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


@cache
def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _git_revision(folder: Path) -> str | None:
    """The revision steptime itself runs from, or None where it is installed, not checked out.

    Asked once: what is written to the checkout later does not change what a process has imported.
    """
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
