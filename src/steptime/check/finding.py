"""Findings: what ``check`` says of a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from steptime.record.read import Site


class FindingKind(StrEnum):
    """What sort of fault a finding is."""

    DEADLOCK = "deadlock"
    """Ranks wait for one another in a circle, or one for itself."""

    MISMATCH = "mismatch"
    """Ranks call different collectives, or the same one with other shapes, dtypes or roots."""

    MISSING = "missing"
    """A rank never makes a call that others wait in."""

    LOST = "lost"
    """A host answers no more, and others wait for its ranks."""

    STRAGGLER = "straggler"
    """A rank is late, and will come: no deadlock."""

    RACE = "race"
    """Memory is used while a call uses it, a file by two ranks, or a handle is never waited for."""

    DRIFT = "drift"
    """Replicas are not equal, nothing keeps them equal, or gradients are not of the whole batch."""

    DIED = "died"
    """A rank's process ended while others go on."""

    SLOW = "slow"
    """Right, and slower than it need be."""

    DATA = "data"
    """Ranks train on the same batches, on the same ones in each pass, or each by itself without any
    group: a few scripts mean it."""


@dataclass(frozen=True)
class CallSite:
    """A line of the script, as a rank ran it.

    ``via``: the line of an installed package that called for it, as in ``/…/engine.py:2519``; empty
    where the script itself did.
    """

    rank: int
    file: str
    line: int
    via: str = ""


def on_rank(rank: int, site: Site) -> CallSite:
    """A place in the code, as a rank ran it."""
    return CallSite(rank, site.file, site.line, site.via)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault: which ranks have it, where, since when, and how to mend it.

    ``what`` and ``mend`` are sentences. ``since_s``: for how many seconds it had stood when it was
    judged, None where it is no state. ``gain``: the part of the step that the mend is estimated to
    save, None where it is not estimated. ``remark``: it may be meant, and is told besides.
    """

    kind: FindingKind
    ranks: Sequence[int]
    places: Sequence[CallSite]
    what: str
    mend: str
    since_s: float | None = None
    gain: float | None = None
    remark: bool = False
