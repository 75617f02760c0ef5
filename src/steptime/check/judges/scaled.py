"""Scaled: gradients that are scaled after they were reduced, by ranks apart or all once more."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.words import listed

_SCALED = "scaled"
_TOLERANCE, _APART = 1e-3, 1e-2
"""Factors of one rank differ by rounding alone; those of ranks that each take their own by more."""

_LEAST = 3  # steps that are scaled by the same number


def _scaled(job: Job) -> Iterator[Finding]:
    by_number: dict[int, list[Noted]] = {}
    for one in noted(job, _SCALED):
        by_number.setdefault(one.facts["number"], []).append(one)
    steps = [ranks for ranks in by_number.values() if len(ranks) > 1]
    yield from _apart(steps)
    yield from _again(steps)


def _apart(steps: Sequence[Sequence[Noted]]) -> Iterator[Finding]:
    """The first step in which the factors of ranks differ, and each rank has but one."""
    for ranks in steps:
        factors = [one.facts["factors"] for one in ranks]
        if not all(one.facts.get("sharded", True) for one in ranks) or not all(
            map(_is_one, factors)
        ):
            continue
        first = [each[0] for each in factors]
        if max(first) - min(first) > _APART * max(first):
            told = [
                f"{each:.3g} on rank {one.rank}" for each, one in zip(first, ranks, strict=True)
            ]
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                what="each rank scales its own shards of the gradients between the backward and "
                f"the step, by {listed(told[:4])} once: the parts of one model are scaled apart",
                mend="clip by torch.nn.utils.clip_grad_norm_(model.parameters(), most), which "
                "knows of shards; or sum up the squares of all ranks for the norm, by all_reduce",
            )
            return


def _again(steps: Sequence[Sequence[Noted]]) -> Iterator[Finding]:
    """Steps that are all divided by the number of ranks, as the average over them was before.

    A remark: Adam steps as far. Where several backwards add up, it may be their number.
    """
    divided = [
        ranks
        for ranks in steps
        if all(one.facts.get("backwards") == 1 and _divides(one, len(ranks)) for one in ranks)
    ]
    if len(divided) >= _LEAST and len(divided) == len(steps):
        ranks = divided[0]
        yield finding_of(
            ranks,
            FindingKind.DRIFT,
            remark=True,
            what=f"the gradients of each step are divided by {len(ranks)} between its backward and "
            "the step, after they were averaged over as many ranks: an optimizer of no Adam's "
            f"kind makes steps of 1/{len(ranks)} of what its learning rate says",
            mend="leave the division out: DDP and FSDP have made it",
        )


def _divides(one: Noted, ranks: int) -> bool:
    """Whether a rank has multiplied all of its gradients by one part in so many."""
    factors = one.facts["factors"]
    return bool(factors) and all(abs(each * ranks - 1) <= _TOLERANCE for each in factors)


def _is_one(factors: Sequence[float]) -> bool:
    """Whether all shards of a rank were multiplied by one factor, which is positive."""
    largest = max(factors, default=0.0)
    return largest > 0 and largest - min(factors) <= _TOLERANCE * largest


JUDGE = Judge(_scaled)
