"""Stale workers: an epoch or a seed that a dataset is given, and its workers never see."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import finding_of, noted

_STALE_WORKERS = "stale workers"


def _stale_workers(job: Job) -> Iterator[Finding]:
    """Loaders with persistent workers, which have the dataset as it was before the first pass."""
    found = noted(job, _STALE_WORKERS)
    if found:
        facts = found[0].facts
        yield finding_of(
            found,
            FindingKind.DATA,
            f"{facts['name']} of {facts['dataset']} is {facts['now']} on the rank, and its "
            f"workers have {facts['then']}: they are persistent, and keep the copy that they were "
            "started with, so what they read by it is of the first pass each time",
            "make it a tensor in shared memory (torch.tensor(0).share_memory_()), let the sampler "
            "hand it over with the index, or leave out persistent_workers",
            remark=True,
        )


JUDGE = Judge(_stale_workers)
