"""Replicated: ranks of a tensor-parallel axis that compute on other data than one another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog

_REPLICATED = "replicated"
_TOLERANCE = 0.05
"""What ranks compute alike differs by rounding: by less than so much of the largest element."""


def _replicated(job: Job) -> Iterator[Finding]:
    """For each group of ranks the first tensor that they have differently, and say to be one."""
    taken: dict[tuple[int, ...], dict[int, dict[int, tuple[ProcessLog, Mapping[str, Any]]]]] = {}
    for log in job.logs:
        for facts in facts_of(log, _REPLICATED):
            of_group = taken.setdefault(tuple(facts["ranks"]), {})
            of_group.setdefault(facts["number"], {})[log.rank] = log, facts
    for ranks, by_number in taken.items():
        for of_rank in by_number.values():
            if len(of_rank) < len(ranks):
                continue
            shapes = {tuple(facts["shape"]) for _, facts in of_rank.values()}
            if len(shapes) > 1:
                break  # they do not make the same calls, and what follows has no number
            if apart([facts["samples"] for _, facts in of_rank.values()]):
                yield _finding(ranks, of_rank, " × ".join(map(str, *shapes)))
                break


def apart(samples: Sequence[Sequence[float]]) -> bool:
    """Whether ranks have other samples of a tensor, by more than rounding does."""
    largest = max((abs(value) for of_rank in samples for value in of_rank), default=0.0)
    widest = max((max(values) - min(values) for values in zip(*samples, strict=True)), default=0.0)
    return widest > _TOLERANCE * largest


def _finding(
    ranks: Sequence[int], of_rank: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]], shape: str
) -> Finding:
    places = [place for log, facts in of_rank.values() for place in places_of(log, facts["at"])]
    if any(facts.get("of_gradient") for _, facts in of_rank.values()):
        return Finding(
            kind=FindingKind.DRIFT,
            ranks=list(ranks),
            places=places,
            what=f"{ranks_named(ranks)} have other values in a gradient of {shape} that is taken "
            "for the same on all of them: to_local() gives its DTensor the gradient of the rank's "
            "own part of the computing for that of the whole",
            mend="say what it is, to_local(grad_placements=[Partial()]), where each rank computes "
            "with its own tokens or samples: it is summed up then",
        )
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=list(ranks),
        places=places,
        what=f"{ranks_named(ranks)} have other values in a tensor of {shape} that they share as "
        "replicated, DTensor.from_local(…, Replicate()), as the input of ColwiseParallel is: each "
        "multiplies its shard of the weights by data of its own, and what is summed up belongs to "
        "no sample",
        mend="give all ranks of a tensor-parallel axis the same batches (DistributedSampler takes "
        "the size of the data axis and the rank in it), and one seed for what lies outside of "
        "shards, dropout and parameters",
    )


JUDGE = Judge(_replicated)
