"""Programs: one training step as data."""

from steptime.program.check import check
from steptime.program.meetings import Call, Meetings, Occasions, meetings
from steptime.program.program import (
    MAIN,
    Collective,
    Compute,
    Op,
    Program,
    Recv,
    Send,
    Wait,
)

__all__ = [
    "MAIN",
    "Call",
    "Collective",
    "Compute",
    "Meetings",
    "Occasions",
    "Op",
    "Program",
    "Recv",
    "Send",
    "Wait",
    "check",
    "meetings",
]
