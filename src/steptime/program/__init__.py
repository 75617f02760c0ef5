"""Programs: one training step as data."""

from steptime.program.check import check
from steptime.program.kernel import Kernel
from steptime.program.matching import Callers, Matching, match_calls
from steptime.program.meetings import Call
from steptime.program.program import (
    MAIN,
    PIPELINE,
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
    "PIPELINE",
    "Call",
    "Callers",
    "Collective",
    "Compute",
    "Kernel",
    "Matching",
    "Op",
    "Program",
    "Recv",
    "Send",
    "Wait",
    "check",
    "match_calls",
]
