"""Detached: a loss of what a call gave without a gradient, as of features that all ranks gather."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_DETACHED = "detached"


def _detached(job: Job) -> Iterator[Finding]:
    """Calls whose input has a gradient, and lines that go on with their output as a constant."""
    for one in seen(job, _DETACHED, ("call", "call_at", "at")):
        call = one.facts["call"]
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=one.ranks,
            places=[*one.places("at"), *one.places("call_at")],
            what=f"{one.facts['at']} computes with gradients from what the {call} of "
            f"{one.facts['call_at']} gave, which has none: dist.{call} sends no gradient back, so "
            "what is trained learns nothing by way of the other ranks, without an error",
            mend=f"call torch.distributed.nn.functional.{call}, which sends the gradients back; or "
            "put the rank's own tensor in its place, gathered[rank] = tensor; or call it within "
            "torch.no_grad() where constants are meant",
        )


JUDGE = Judge(_detached)
