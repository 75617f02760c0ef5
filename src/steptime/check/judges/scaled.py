"""Scaled: shards of gradients that each rank multiplies by a factor of its own."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.words import listed

_SCALED = "scaled"
_TOLERANCE, _APART = 1e-3, 1e-2
"""Factors of one rank differ by rounding alone; those of ranks that each take their own by more."""


def _scaled(job: Job) -> Iterator[Finding]:
    """The first step in which the factors of ranks differ, and each rank has but one."""
    by_number: dict[int, list[Noted]] = {}
    for one in noted(job, _SCALED):
        by_number.setdefault(one.facts["number"], []).append(one)
    for ranks in by_number.values():
        factors = [one.facts["factors"] for one in ranks]
        if len(ranks) < 2 or not all(map(_is_one, factors)):
            continue
        first = [each[0] for each in factors]
        if max(first) - min(first) > _APART * max(first):
            told = [
                f"{each:.3g} on rank {one.rank}" for each, one in zip(first, ranks, strict=True)
            ]
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=[one.rank for one in ranks],
                places=[place for one in ranks for place in one.places],
                what="each rank scales its own shards of the gradients between the backward and "
                f"the step, by {listed(told[:4])} once: the parts of one model are scaled apart",
                mend="clip by torch.nn.utils.clip_grad_norm_(model.parameters(), most), which "
                "knows of shards; or sum up the squares of all ranks for the norm, by all_reduce",
            )
            return


def _is_one(factors: Sequence[float]) -> bool:
    """Whether all shards of a rank were multiplied by one factor, which is positive."""
    largest = max(factors, default=0.0)
    return largest > 0 and largest - min(factors) <= _TOLERANCE * largest


JUDGE = Judge(_scaled)
