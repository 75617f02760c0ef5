"""Scaled again: gradients over several calls of a pipeline, of which the last one counts."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import finding_of, noted

_SCALED_AGAIN = "scaled again"


def _scaled_again(job: Job) -> Iterator[Finding]:
    """Stages that add up gradients over calls of a schedule which divides them in each one."""
    found = noted(job, _SCALED_AGAIN)
    if found:
        factor = found[0].facts["factor"]
        yield finding_of(
            found,
            FindingKind.DRIFT,
            f"the schedule of the pipeline is called several times before the optimizer steps, and "
            f"divides the gradients by its {factor:g} micro-batches at the end of each call: what "
            "earlier calls have left there is divided once more each time, so that the step is "
            "nearly that of the last call alone",
            "make the schedule with scale_grads=False and divide the loss, or the gradients before "
            "the step, by all micro-batches of the step",
        )


JUDGE = Judge(_scaled_again)
