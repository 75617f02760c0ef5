"""Evaluations: ranks that all evaluate the same batches, where each could take a part of them."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.steps import LEAST_GAIN
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog

_EVALUATION = "evaluation"
_LEAST_NS = 3e8


def _evaluations(job: Job) -> Iterator[Finding]:
    """Evaluations of a model whose batches are the same on all ranks, by the time that they take.

    p ranks that take a part each are done after 1 / p of it.
    """
    by_model: dict[tuple[int, tuple[int, ...]], dict[int, list[Noted]]] = {}
    for one in noted(job, _EVALUATION):
        of_ranks = by_model.setdefault((one.facts["model"], tuple(one.facts["ranks"])), {})
        of_ranks.setdefault(one.rank, []).append(one)
    for (_, ranks), of_rank in by_model.items():
        if len(of_rank) < len(ranks):
            continue
        first = [evaluations[0] for evaluations in of_rank.values()]
        same = [each for each in zip(*of_rank.values(), strict=False) if _alike(each)]
        took = sum(min(one.facts["took_ns"] for one in each) for each in same)
        gain = took * (1 - 1 / len(ranks)) / max(_lasted(one.log) for one in first)
        if took >= _LEAST_NS and gain >= LEAST_GAIN:
            batches = same[0][0].facts["batches"]
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=sorted(ranks),
                places=[place for one in first for place in one.places],
                what=f"{ranks_named(ranks)} each evaluate the same {batches} batches, "
                f"{len(same)} times, for {took / len(same) / 1e9:.2f} s: each could take a part",
                mend="give the evaluation's loader a DistributedSampler(dataset, shuffle=False), "
                "and sum up what is counted, right ones and all, by an all_reduce",
                gain=gain,
            )


def _alike(evaluations: Sequence[Noted]) -> bool:
    """Whether ranks were given the same batches, and these are not one and the same."""
    given = {(one.facts["batches"], *one.facts["hashes"]) for one in evaluations}
    return len(given) == 1 and len(set(evaluations[0].facts["hashes"])) > 1


def _lasted(log: ProcessLog) -> int:
    """From the first event of a rank to its last, in nanoseconds."""
    return max(1, log.last - int(log.events["issued"].min(initial=log.last)))


JUDGE = Judge(_evaluations)
