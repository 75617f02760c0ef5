"""Collectives defined once, as rounds of messages; proved, priced, drawn and carried out."""

from steptime.collectives.algorithm import (
    Algorithm,
    algorithm,
    algorithm_named,
    algorithms,
    algorithms_in,
    all_algorithms,
    schedule,
)
from steptime.collectives.collective import COLLECTIVES, Collective, collective_named
from steptime.collectives.proof import Finding, Proof, prove
from steptime.collectives.schedule import TRANSFER, Round, Schedule, send, together

__all__ = [
    "COLLECTIVES",
    "TRANSFER",
    "Algorithm",
    "Collective",
    "Finding",
    "Proof",
    "Round",
    "Schedule",
    "algorithm",
    "algorithm_named",
    "algorithms",
    "algorithms_in",
    "all_algorithms",
    "collective_named",
    "prove",
    "schedule",
    "send",
    "together",
]
