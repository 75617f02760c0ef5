"""Unused parameters: DDP looks for them in each forward, and there never are any."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.steps import RankSteps, step_length, steps_of
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog

_LOOKED = "looked"
_LEAST_GAIN = 0.02
"""Less than of others: PyTorch warns of it at any cost, and the mend is to leave out a word."""


def _unused_parameters(job: Job) -> Iterator[Finding]:
    """Models with find_unused_parameters of which every parameter was used in every step.

    What that costs is the search at the end of each forward, and to agree on what was found: an
    all_reduce that comes after those of the gradients.
    """
    ranks = steps_of(job)
    for one in seen(job, _LOOKED, ("model", "at")):
        if not ranks or len(one.ranks) < len(ranks):
            continue
        gain = max(_cost(steps, one.facts["model"]) for steps in ranks) / step_length(ranks)
        if gain >= _LEAST_GAIN:
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=one.ranks,
                places=one.places("at"),
                what=f"DistributedDataParallel at {one.facts['at']} looks for unused parameters of "
                f"{one.facts['model']} in each forward, and there never were any",
                mend="leave find_unused_parameters=True out",
                gain=gain,
            )


def _cost(steps: RankSteps, model: str) -> float:
    """What the search and the agreement take in a step of a rank, in nanoseconds."""
    looked = [
        int(note.facts["looking_ns"])
        for note in steps.log.observed
        if note.what == _LOOKED and note.facts["model"] == model
    ]
    return sum(looked) / (steps.number + 1) + _agreement(steps.log)


def _agreement(log: ProcessLog) -> float:
    """How much longer than the reduction before it the one of integers takes, as a median."""
    found = [0]
    calls = log.calls
    for before, call in pairwise(calls):
        signature = log.signatures.get(int(call["signature"]))
        reduces = OPERATIONS[call["operation"]].kind == "all_reduce"
        if reduces and signature is not None and signature.dtype == "int32":
            begin = max(int(before["ended"]), int(call["issued"]))
            found.append(max(0, int(call["ended"]) - begin))
    return float(median(found))


JUDGE = Judge(_unused_parameters)
