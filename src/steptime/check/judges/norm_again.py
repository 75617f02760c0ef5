"""Norm again: a norm for clipping, summed up over ranks that all have the whole gradient."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import finding_of, noted

_NORM_AGAIN = "norm again"


def _norm_again(job: Job) -> Iterator[Finding]:
    """Ranks that sum up the squares of their gradients, as it is right for shards alone."""
    found = noted(job, _NORM_AGAIN)
    if found:
        number = len(found[0].facts["ranks"])
        yield finding_of(
            found,
            FindingKind.DATA,
            "the norm of gradients that DistributedDataParallel has averaged is summed up over the "
            f"ranks, as that of shards would be: it comes out √{number} times too large, or "
            f"{number} times where it is no square, and what is clipped by it too small",
            "leave out the sum: each rank has the whole gradient, and its norm is that of all",
            remark=True,
        )


JUDGE = Judge(_norm_again)
