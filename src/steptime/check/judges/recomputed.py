"""Recomputed: backwards that compute anew what the forward did, among other ranks."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import finding_of, noted
from steptime.check.words import ranks_named

_RECOMPUTED = "recomputed"


def _recomputed(job: Job) -> Iterator[Finding]:
    """Checkpoints whose function asks for its group anew, and finds another in the backward."""
    found = noted(job, _RECOMPUTED)
    if found:
        first = found[0].facts
        yield finding_of(
            found,
            FindingKind.DRIFT,
            f"the backward computes a checkpoint anew and makes {first['kind']} among "
            f"{ranks_named(first['instead'])}, which the forward made among "
            f"{ranks_named(first['ranks'])}: its gradients are of activations that no forward had",
            "give the checkpointed function its group, as an argument, in place of one that is "
            "looked up while it runs",
        )


JUDGE = Judge(_recomputed)
