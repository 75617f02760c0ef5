"""Programs: one training step as data."""

from steptime.program.program import (
    MAIN,
    Collective,
    Compute,
    Op,
    Program,
    Recv,
    Send,
    Wait,
    check,
)

__all__ = ["MAIN", "Collective", "Compute", "Op", "Program", "Recv", "Send", "Wait", "check"]
