"""Constant buffers: DDP sends them to all ranks before each forward, and they never change."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.steps import (
    LEAST_GAIN,
    StepCall,
    spent_in_rows,
    step_length,
    steps_of,
)
from steptime.units import format_bytes

_CONSTANT = "constant buffers"
_FACTS = ("model", "name", "largest", "constant", "nbytes", "at")


def _constant_buffers(job: Job) -> Iterator[Finding]:
    """Models with buffers that stay as they are, by their part of the time to send all of them."""
    ranks = steps_of(job)
    for one in seen(job, _CONSTANT, _FACTS) if ranks else ():
        facts = one.facts
        part = facts["constant"] / facts["nbytes"]
        gain = part * spent_in_rows(ranks, _sends_buffers) / step_length(ranks)
        if len(one.ranks) == len(ranks) and gain >= LEAST_GAIN:
            some, or_else = (
                "none of them",
                ", or give DistributedDataParallel broadcast_buffers=False",
            )
            if facts["constant"] < facts["nbytes"]:
                some, or_else = f"{format_bytes(facts['constant'])} of it never", ""
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=one.ranks,
                places=one.places("at"),
                what=f"DistributedDataParallel sends {format_bytes(facts['nbytes'])} of buffers of "
                f"{facts['name']} to all ranks before each forward at {facts['at']}, and {some} "
                f"changes, as {facts['largest']}",
                mend=f"keep what never changes as an attribute that is no buffer{or_else}",
                gain=gain,
            )
            return


def _sends_buffers(call: StepCall) -> bool:
    return call.of_replicas and call.kind == "broadcast"


JUDGE = Judge(_constant_buffers)
