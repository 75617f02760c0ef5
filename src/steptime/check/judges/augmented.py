"""Augmented: ranks that change other samples by the same random numbers."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.batches import are_apart, batches_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.words import listed

_AUGMENTED = "augmented"


def _augmented(job: Job) -> Iterator[Finding]:
    """Replicas whose workers of one number draw from the same state, for samples of their own.

    Without workers it is the rank itself. A DistributedSampler's order is not drawn there.
    """
    drawn: dict[int, dict[int, Noted]] = {}
    for one in noted(job, _AUGMENTED):
        drawn.setdefault(one.facts["worker"], {})[one.rank] = one
    for by_rank in batches_of(job):
        for worker, of in sorted(drawn.items()):
            ranks = [of[rank] for rank in by_rank if rank in of]
            alike = len({(one.facts["state"], *one.facts["drawn"]) for one in ranks}) == 1
            if alike and len(ranks) == len(by_rank) > 1 and are_apart(by_rank):
                yield _finding(ranks, worker)
                return


def _finding(ranks: list[Noted], worker: int) -> Finding:
    generators = listed([f"{name}'s" for name in ranks[0].facts["drawn"]])
    named = ranks_named(sorted(one.rank for one in ranks))
    who = f"the first workers of {named}" if worker >= 0 else named
    return finding_of(
        ranks,
        FindingKind.DATA,
        f"{who} change other samples by the same random numbers as they load them, since "
        f"{generators} generators begin at the same state: a step augments as one rank does",
        "seed each rank apart, torch.manual_seed(seed + rank) before the loader is made, by which "
        "its workers are seeded, too",
        remark=True,
    )


JUDGE = Judge(_augmented)
