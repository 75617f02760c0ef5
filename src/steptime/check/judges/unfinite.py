"""Unfinite: the loss of some ranks that is no number, by which all ranks step."""

from collections.abc import Iterator

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.losses import losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of
from steptime.check.words import ranks_named

_UNFINITE, _STEPS = "unfinite", "steps"


def _unfinite(job: Job) -> Iterator[Finding]:
    """The first backwards that began at no number on some ranks, and on others did not.

    Those who make a loss all the same are told by their first; stages of a pipeline make none.
    """
    reducing = {one.rank for one in noted(job, _STEPS) if one.facts["reductions"]}
    with_loss = set(losses_of(job)) & reducing
    spoilt = [one for one in noted(job, _UNFINITE) if one.rank in with_loss]
    if not spoilt:
        return
    number = min(one.facts["number"] for one in spoilt)
    first = [one for one in spoilt if one.facts["number"] == number]
    others = sorted(with_loss - {one.rank for one in first})
    if others:
        ranks = [one.rank for one in first]
        whose = "their" if len(first) > 1 else "its"
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=ranks,
            places=[place for one in first for place in _places(one)],
            what=f"backward {number} of {ranks_named(ranks)} begins at a loss that is "
            f"{first[0].facts['value']}, that of {ranks_named(others)} does not, and the optimizer "
            f"steps: {whose} gradients are summed up with the others', and since then the "
            "parameters are no numbers",
            mend="decide on all ranks together whether to skip a batch: all_reduce by MIN what "
            "torch.isfinite(loss) says on each, before the backward; or skip the step by the norm "
            "of the gradients, once they are reduced",
        )


def _places(one: Noted) -> list[CallSite]:
    return [*places_of(one.log, one.facts["begun_at"]), *one.places]


JUDGE = Judge(_unfinite)
