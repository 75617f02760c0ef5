"""Samplers: what the passes of a rank through its data say of the ranks that it trains with."""

from collections.abc import Mapping
from typing import Any

from steptime.check.observed import facts_of
from steptime.record.read import ProcessLog


def passes_of(log: ProcessLog) -> list[Mapping[str, Any]]:
    """The passes of DistributedSamplers that a rank was trained on, in order."""
    return facts_of(log, "pass")


def pass_among(log: ProcessLog, ranks: int) -> Mapping[str, Any]:
    """The first pass that a rank was trained on through its part of so many; empty without one."""
    return next((one for one in passes_of(log) if one["replicas"] == ranks), {})
