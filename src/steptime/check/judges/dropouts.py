"""Dropouts: ranks that drop the same elements of other samples."""

from collections.abc import Iterator, Mapping

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.batches import are_apart, batches_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named

_DROPOUT = "dropout"
_LEAST = 3


def _dropouts(job: Job) -> Iterator[Finding]:
    """Replicas whose dropouts begin at the same numbers, batch after batch of other samples.

    Srivastava et al. 2014, "Dropout", section 4, draws each sample a mask of its own.
    """
    dropped: dict[int, dict[int, Noted]] = {}
    for one in noted(job, _DROPOUT):
        dropped.setdefault(one.facts["number"], {})[one.rank] = one
    for by_rank in batches_of(job):
        among = [
            {rank: of[rank] for rank in by_rank}
            for of in dropped.values()
            if of.keys() >= by_rank.keys()
        ]
        states = {_state(of) for of in among}
        if len(by_rank) > 1 and are_apart(by_rank) and len(states) >= _LEAST and 0 not in states:
            first = among[0]
            yield finding_of(
                list(first.values()),
                FindingKind.DATA,
                f"{ranks_named(sorted(by_rank))} drop the same elements of what they compute of "
                "other samples, since each of their dropouts begins at the same state of the "
                "random generator: a step draws as many masks as one rank does",
                "seed each rank apart once the model is made: torch.manual_seed(seed + rank)",
                remark=True,
            )
            return


def _state(by_rank: Mapping[int, Noted]) -> int:
    """What one dropout of all ranks begins at and drops, as a number; 0 where it differs."""
    begun = {(one.facts["state"], *one.facts["shape"]) for one in by_rank.values()}
    return hash(begun.pop()) or 1 if len(begun) == 1 else 0


JUDGE = Judge(_dropouts)
