"""The record of a check: what was found in a job, and how its ranks ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steptime.runs.codec import plain
from steptime.runs.environment import ALWAYS, Environment


@dataclass(frozen=True, kw_only=True)
class FoundFault:
    """A finding as JSON has it; its fields are those of ``steptime.check.finding.Finding``."""

    kind: str
    ranks: Sequence[int] = field(metadata=ALWAYS)
    places: Sequence[Mapping[str, Any]] = field(metadata=ALWAYS)
    what: str
    mend: str
    since_s: float | None = field(default=None, metadata=ALWAYS)
    gain: float | None = field(default=None, metadata=ALWAYS)


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """What ``check`` leaves as run.json.

    ``ok``: nothing was found that counts as failure, ``fail_on`` being the kinds that do.
    ``remarks``: what was seen besides, and may be meant, in the form of findings.
    ``exit_code``: the script's own, None where none was run. ``ended_by_check``: the job stood
    still and was ended. ``stacks``: of each rank that was asked for it, by its number, the
    frames of the thread that runs the script, the innermost first.
    """

    verb: str = "check"
    run: str = ""
    ok: bool
    findings: Sequence[FoundFault] = field(metadata=ALWAYS)
    remarks: Sequence[FoundFault] = ()
    fail_on: Sequence[str] = field(metadata=ALWAYS)
    command: Sequence[str] = field(default=(), metadata=ALWAYS)
    ranks: int | None = None
    exit_code: int | None = field(default=None, metadata=ALWAYS)
    ended_by_check: bool = False
    stacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Environment


def check_json(record: CheckRecord) -> dict[str, Any]:
    """The content of its run.json."""
    raw: dict[str, Any] = plain(record)
    return raw
