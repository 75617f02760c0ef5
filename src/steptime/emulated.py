"""What a process on an emulated cluster can read of it: its hosts, its links' dilation, its faults.

``steptime emulate`` keeps it in a file that exists as long as the cluster, and names that file in
the environment of every process there.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "STEPTIME_EMULATED"


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    """What happened to a host's link from ``at_s`` to ``until_s``, by the clock that times steps.

    ``until_s`` is None as long as it lasts.
    """

    what: str
    host: str
    at_s: float
    until_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A cluster that this process runs on one host of."""

    cluster: str
    hosts: int
    time_dilation: float
    faults: Sequence[LinkFault] = ()
    """Those that have happened so far."""


def here(environ: Mapping[str, str] = os.environ) -> Emulated | None:
    """The emulated cluster that this process runs on; None where it runs on none."""
    told = _told(environ)
    if not told:
        return None
    return Emulated(
        cluster=told["cluster"],
        hosts=len(told["holders"]),
        time_dilation=told["time_dilation"],
        faults=[LinkFault(**fault) for fault in told["faults"]],
    )


def holders(environ: Mapping[str, str] = os.environ) -> Mapping[str, int]:
    """The processes that hold the hosts' namespaces, by the names of the hosts; none elsewhere."""
    told = _told(environ)
    return dict(told["holders"]) if told else {}


def _told(environ: Mapping[str, str]) -> dict[str, Any] | None:
    path = environ.get(VARIABLE)
    if not path:
        return None
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError):  # the variable was kept for a process elsewhere
        return None
