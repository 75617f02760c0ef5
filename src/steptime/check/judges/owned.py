"""Owned: parameters of which each rank's optimizer has a part, and what the others get of it."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import do, ranks_named
from steptime.words import listed

_OWNED = "owned"
_NAMED = 3

_SENT = (
    "broadcast each parameter from the rank whose optimizer has it, or all_gather all of them, "
    "after every step"
)


def _owned(job: Job) -> Iterator[Finding]:
    """Ranks that each update a part of one model, as ZeRO's first stages do.

    Rajbhandari et al. 2020, "ZeRO", section 5: the gradients of a part are reduced to the rank that
    has it, and what it has made of them goes to all.
    """
    ranks = noted(job, _OWNED)
    alike = len({(one.facts["model"], *one.facts["names"]) for one in ranks}) == 1
    if len(ranks) < 2 or len(ranks) < len(job.logs) or not alike:
        return
    parts = [_who_has(ranks, at) for at in range(len(ranks[0].facts["names"]))]
    if not all(0 < len(those) < len(ranks) for those in parts if those):
        return
    kept = [at for at, those in enumerate(parts) if those and _is_kept(ranks, those, at)]
    undone = [at for at, those in enumerate(parts) if those and _is_undone(those, at)]
    summed = any(one.facts["summed"] for one in ranks)
    sent = all(one.facts["written"][at] for one in ranks for at, those in enumerate(parts) if those)
    if kept and summed:
        some, first = _named(ranks, parts, kept), parts[kept[0]]
        others = [one.rank for one in ranks if one not in first]
        yield _finding(
            ranks,
            f"{some} is updated on {ranks_named([one.rank for one in first])} alone, whose "
            f"optimizer has it, and {do(others, 'keeps')} what was there before the first step: "
            "nobody sends them what it has become",
            _SENT,
        )
    elif undone and summed:
        some, first = _named(ranks, parts, undone), parts[undone[0]]
        yield _finding(
            ranks,
            f"{some} is what it was before the first step, though "
            f"{ranks_named([one.rank for one in first])} steps by its gradients: what the "
            "optimizer has made of it is written over by what another rank has, which does not "
            "update it",
            _SENT,
        )
    elif sent and not summed and _are_apart(list(losses_of(job).values())):
        yield _finding(
            ranks,
            "each rank's optimizer has a part of the model and steps by gradients of the rank's "
            "own batches, for nobody reduces them: what the other ranks compute of that part is "
            "for nothing",
            "reduce every gradient to the rank whose optimizer has its parameter, or to all, and "
            "divide it by the number of ranks, before each step",
        )


def _who_has(ranks: Sequence[Noted], at: int) -> list[Noted]:
    return [one for one in ranks if one.facts["owned"][at]]


def _is_kept(ranks: Sequence[Noted], those: Sequence[Noted], at: int) -> bool:
    """Whether a parameter changes where an optimizer has it, and on no other rank."""
    others = [one for one in ranks if one not in those]
    changes = all(one.facts["written"][at] for one in those)
    return changes and not any(one.facts["written"][at] for one in others)


def _is_undone(those: Sequence[Noted], at: int) -> bool:
    """Whether a parameter has not changed by steps, though there were gradients for it."""
    return not any(one.facts["written"][at] for one in those) and all(
        one.facts["trained"][at] for one in those
    )


def _are_apart(losses: Sequence[float]) -> bool:
    return len(losses) > 1 and differ(losses)


def _named(ranks: Sequence[Noted], parts: Sequence[Sequence[Noted]], places: Sequence[int]) -> str:
    """Those that the ranks have who have the first: ``0.weight of Sequential``, or several."""
    of_first = [at for at in places if parts[at] == parts[places[0]]]
    names = [ranks[0].facts["names"][at] for at in of_first]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    of = f"of {ranks[0].facts['model']}"
    return f"{'each of ' * (len(names) > 1)}{listed([*names[:_NAMED], *more])} {of}"


def _finding(ranks: Sequence[Noted], what: str, mend: str) -> Finding:
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=sorted(one.rank for one in ranks),
        places=[place for one in ranks for place in one.places],
        what=what,
        mend=mend,
    )


JUDGE = Judge(_owned)
