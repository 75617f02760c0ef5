"""Meets: ranks that exchange as much as a model again and again, and never have the same one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import left_out
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.samplers import pass_among
from steptime.words import listed

_MEETS, _ALONE, _BY_HAND, _BEFORE = "meets", "alone", "by hand", "hashes before"
_NAMED = 4
_OFTEN = 3
"""After so many exchanges they are looked at, at least."""

_TOLERANCE = 0.01
"""What all ranks make alike differs by rounding: by less than so much of what has changed."""

_Steps: TypeAlias = Mapping[int, Sequence[Noted]]
"""What all ranks have noted, by the number of steps that the optimizer had made."""


def _meets(job: Job) -> Iterator[Finding]:
    """Optimizers whose parameters begin alike on all ranks, and are never so again.

    What is known of them more closely is told by others. Where ranks average with one other at a
    time, as in gossip, two of them have the same.
    """
    if noted(job, _BY_HAND) or any(True for _ in left_out.JUDGE.judge(job)):
        return
    known = {one.facts["optimizer"] for what in (_ALONE, _BEFORE) for one in noted(job, what)}
    for number, steps in _by_optimizer(job).items():
        if number in known or 0 not in steps or len(steps) <= _OFTEN:
            continue
        begun, places = steps[0], steps[0][0].facts["places"]
        of_own = any(len(set(map(tuple, of))) > 1 for of in _values(begun))  # shards, as experts
        constant = all(len(set(one)) == 1 for one in begun[0].facts["samples"])  # perturbations
        if of_own or constant:
            continue
        later = [of_step for made, of_step in sorted(steps.items()) if made]
        apart = [[_apart(begun, one, at) for one in later] for at in range(len(places))]
        never = [places[at] for at, of_one in enumerate(apart) if all(of_one)]
        met = [at for at, of_one in enumerate(apart) if not any(of_one)]
        if never and len(never) + len(met) == len(places):
            yield _finding(later, never if met else ())


def _by_optimizer(job: Job) -> Mapping[int, _Steps]:
    """What was noted of each optimizer, where all ranks did."""
    found: dict[int, dict[int, list[Noted]]] = {}
    for one in noted(job, _MEETS):
        of_step = found.setdefault(one.facts["optimizer"], {}).setdefault(one.facts["step"], [])
        of_step.append(one)
    world = len(job.logs)
    return {
        number: {made: ranks for made, ranks in steps.items() if _alike(ranks, world)}
        for number, steps in found.items()
    }


def _alike(ranks: Sequence[Noted], world: int) -> bool:
    """Whether all ranks of the job have noted as many samples of the same parameters."""
    of = {(*one.facts["places"], *map(len, one.facts["samples"])) for one in ranks}
    return len(ranks) == world > 1 and len(of) == 1


def _values(ranks: Sequence[Noted]) -> Iterator[tuple[Sequence[float], ...]]:
    """The samples of each parameter on all ranks."""
    yield from zip(*(one.facts["samples"] for one in ranks), strict=True)


def _apart(begun: Sequence[Noted], ranks: Sequence[Noted], at: int) -> bool:
    """Whether no two ranks have made the same of a parameter."""
    first, now = (np.array([one.facts["samples"][at] for one in of]) for of in (begun, ranks))
    changed = np.abs(now - first).max()
    differ = [
        np.abs(now[one] - now[other]).max() for one, other in combinations(range(len(now)), 2)
    ]
    return bool(changed > 0 and min(differ) > _TOLERANCE * changed)


def _finding(later: Sequence[Sequence[Noted]], left: Sequence[int]) -> Finding:
    """That all parameters never meet, or some that are ``left`` out, by their places."""
    ranks = later[-1]
    split = all(pass_among(one.log, len(ranks)) for one in ranks)
    large = all(one.facts.get("large", True) for one in ranks)
    exchanges = f"{len(later)} exchanges {'as large' if large else 'of as many tensors'}"
    if left:
        numbers = [str(at) for at in left[:_NAMED]]
        more = [f"{len(left) - _NAMED} more"] if len(left) > _NAMED else []
        those = "parameters" if left[1:] else "parameter"
        what = (
            f"{those} {listed([*numbers, *more])} of the optimizer {'are' if left[1:] else 'is'} "
            f"the same on no two ranks after any of {exchanges} as the model, and all others are: "
            "what is averaged leaves out some"
        )
    else:
        what = (
            "all ranks begin with the same parameters, and no two of them have the same after any "
            f"of {exchanges} as these: what they exchange gets neither into the gradients by which "
            "they step nor into their models"
        )
    if not large:
        what += ", or each rank puts it where no other does"
    return finding_of(
        ranks,
        FindingKind.DRIFT if split else FindingKind.DATA,
        remark=not split,
        what=what,
        mend="give what is summed up or gathered back on every rank: parameter.grad = … before the "
        "step, or load_state_dict where models are averaged; DistributedDataParallel does it",
    )


JUDGE = Judge(_meets)
