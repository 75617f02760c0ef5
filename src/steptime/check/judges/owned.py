"""Owned: parameters of which each rank's optimizer has a part, and what the others get of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import do, ranks_named
from steptime.words import listed

_OWNED = "owned"
_NAMED = 3

_SENT = (
    "broadcast each parameter from the rank whose optimizer has it, or all_gather all of them, "
    "after every step"
)
_REDUCED = "reduce the gradient of each parameter to the rank whose optimizer has it"

_Parts: TypeAlias = Mapping[int, list[int]]
"""By the place of a parameter the ranks whose optimizers have it."""

_Told: TypeAlias = tuple[str, str] | None
"""What is found, and the mend."""


def _owned(job: Job) -> Iterator[Finding]:
    """Ranks that each update a part of one model, as ZeRO's first stages do.

    Rajbhandari et al. 2020, "ZeRO", section 5: the gradients of a part are reduced to the rank that
    has it, and what it has made of them goes to all.
    """
    ranks = noted(job, _OWNED)
    alike = len({(one.facts["model"], *one.facts["names"]) for one in ranks}) == 1
    if len(ranks) < 2 or len(ranks) < len(job.logs) or not alike:
        return
    every = range(len(ranks[0].facts["names"]))
    parts = {at: those for at in every if (those := _where(ranks, "owned", at))}
    if parts and all(len(those) < len(ranks) for those in parts.values()):
        if any(one.facts["summed"] for one in ranks):
            told = (
                _elsewhere(ranks, parts)
                or _kept(ranks, parts)
                or _undone(ranks, parts)
                or _all_zero(ranks)
            )
        else:
            told = _unreduced(ranks, parts, list(losses_of(job).values()))
        if told:
            yield finding_of(ranks, FindingKind.DRIFT, *told)


def _elsewhere(ranks: Sequence[Noted], parts: _Parts) -> _Told:
    """Parameters whose gradients are summed up on a rank that does not update them."""
    root_of = {
        at: one.facts["elsewhere"][at]
        for one in ranks
        for at, those in parts.items()
        if those == [one.rank] and one.facts.get("elsewhere", [-1] * (at + 1))[at] >= 0
    }
    if not root_of:
        return None
    places = sorted(root_of)
    owner, root = parts[places[0]], root_of[places[0]]
    return (
        f"{_named(ranks, parts, places)} is updated on {ranks_named(owner)}, whose optimizer has "
        f"it, and its gradients are summed up on rank {root}, which has no use for the sum: "
        f"{do(owner, 'steps')} by its own",
        f"{_REDUCED}; a function that is made in a loop has what the loop's variables are at its "
        "end, unless they are its defaults or functools.partial's",
    )


def _kept(ranks: Sequence[Noted], parts: _Parts) -> _Told:
    """Parameters that change where an optimizer has them, and on no other rank."""
    kept = [at for at, those in parts.items() if _where(ranks, "written", at) == those]
    if not kept:
        return None
    first = parts[kept[0]]
    others = [one.rank for one in ranks if one.rank not in first]
    return (
        f"{_named(ranks, parts, kept)} is updated on {ranks_named(first)} alone, whose optimizer "
        f"has it, and {do(others, 'keeps')} what was there before the first step: nobody sends "
        "them what it has become",
        _SENT,
    )


def _undone(ranks: Sequence[Noted], parts: _Parts) -> _Told:
    """Parameters that steps have not changed, though there were gradients for them."""
    undone = [
        at
        for at, those in parts.items()
        if not set(those).intersection(_where(ranks, "written", at))
        and set(those) <= set(_where(ranks, "trained", at))
    ]
    if not undone:
        return None
    return (
        f"{_named(ranks, parts, undone)} is what it was before the first step, though "
        f"{do(parts[undone[0]], 'steps')} by its gradients: what the optimizer has made of it is "
        "written over by what another rank has, which does not update it",
        _SENT,
    )


def _all_zero(ranks: Sequence[Noted]) -> _Told:
    """Optimizers of some ranks alone that step by zeros."""
    without = [
        one.rank for one in ranks if any(one.facts["owned"]) and not any(one.facts["trained"])
    ]
    if not 0 < len(without) < len(ranks):
        return None
    return (
        f"{do(without, 'steps')} by gradients that are all zero, and others do not: what is summed "
        f"up for the part of the model that {do(without, 'has')} goes elsewhere",
        _REDUCED,
    )


def _unreduced(ranks: Sequence[Noted], parts: _Parts, losses: Sequence[float]) -> _Told:
    """Parts that reach all ranks, and are made of the gradients of one rank's own batches."""
    reach = all(len(_where(ranks, "written", at)) == len(ranks) for at in parts)
    if not (reach and len(losses) > 1 and differ(losses)):
        return None
    return (
        "each rank's optimizer has a part of the model and steps by gradients of the rank's own "
        "batches, for nobody reduces them: what other ranks compute of that part is for nothing",
        f"{_REDUCED}, or to all, and divide it by the number of ranks, before each step",
    )


def _where(ranks: Sequence[Noted], what: str, at: int) -> list[int]:
    """The ranks where something is so of a parameter, by its place: ``owned``, ``written``."""
    return [one.rank for one in ranks if one.facts[what][at]]


def _named(ranks: Sequence[Noted], parts: _Parts, places: Sequence[int]) -> str:
    """Those that the ranks have who have the first: ``0.weight of Sequential``, or several."""
    of_first = [at for at in places if parts[at] == parts[places[0]]]
    names = [ranks[0].facts["names"][at] for at in of_first]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    of = f"of {ranks[0].facts['model']}"
    return f"{'each of ' * (len(names) > 1)}{listed([*names[:_NAMED], *more])} {of}"


JUDGE = Judge(_owned)
