"""Wiped: micro-batches whose gradients are cleared before they are reduced."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_WIPED = "wiped"


def _wiped(job: Job) -> Iterator[Finding]:
    """Models under DDP that step by their last micro-batch, though others came before it."""
    for one in seen(job, _WIPED, ("model", "batches", "at")):
        facts, model = one.facts, str(one.facts["model"]).rpartition(" ")[0]
        number = facts["batches"]
        batches = f"{number} micro-batches" if number > 1 else "a micro-batch"
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=one.ranks,
            places=one.places("at"),
            what=f"the gradients of {batches} of {model} that are made within no_sync before the "
            f"step at {facts['at']} are cleared by the time that the next one runs: DDP reduces "
            "none of them, and the step is that of the last alone",
            mend="clear gradients once a step, after it, and let micro-batches add to them: "
            "neither zero_grad nor whatever sets grad to None belongs between them",
        )


JUDGE = Judge(_wiped)
