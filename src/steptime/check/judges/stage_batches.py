"""Stage batches: labels at the end of a pipeline that are not those of what its beginning read."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.pipelines import pipelines
from steptime.check.steps import steps_of
from steptime.check.words import ranks_named

_LOADED_BATCH = "loaded batch"
_FEWEST = 2


def _stage_batches(job: Job) -> Iterator[Finding]:
    """Pipelines whose first and last stage read batches of the same shapes and of other samples.

    Each batch has several tensors, the inputs and the labels; not one of them is the same.
    """
    by_rank: dict[int, list[Noted]] = {}
    for one in noted(job, _LOADED_BATCH):
        by_rank.setdefault(one.rank, []).append(one)
    for pipeline in pipelines(steps_of(job)) if by_rank else ():
        first, last = (by_rank.get(pipeline.stages[at].log.rank, []) for at in (0, -1))
        pairs = _same_batches(first, last)
        apart = [
            (own, other)
            for own, other in pairs
            if set(own.facts["hashes"]).isdisjoint(other.facts["hashes"])
        ]
        if len(apart) >= _FEWEST and len(apart) == len(pairs):
            yield finding_of(
                apart[0],
                FindingKind.DATA,
                f"{ranks_named([one.rank for one in apart[0]])} are the first and the last stage "
                "of a pipeline, and the batches that their loaders give at the same time have no "
                "sample in common: the loss compares what becomes of one batch with the labels of "
                "another",
                "let both go through the same samples in one order: draw them by a generator "
                "of their own with one seed, apart from that of the parameters, or send the labels "
                "from the first stage to the last",
            )


def _same_batches(first: Sequence[Noted], last: Sequence[Noted]) -> list[tuple[Noted, Noted]]:
    """The batches of two ranks that have the same number, in the same loader, and shapes."""
    others = {tuple(one.facts["number"]): one for one in last}
    found = [(one, others.get(tuple(one.facts["number"]))) for one in first]
    return [
        (own, other)
        for own, other in found
        if other is not None and own.facts["shapes"] == other.facts["shapes"]
    ]


JUDGE = Judge(_stage_batches)
