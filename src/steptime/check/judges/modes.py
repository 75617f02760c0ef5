"""Modes: a model that some ranks train in the mode of evaluation, and others do not."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import do
from steptime.words import listed

_MODE = "mode"


def _modes(job: Job) -> Iterator[Finding]:
    """Models, in whose training a rank comes into a mode that another one is not in.

    Replicas run forward together, each of them as often, so that a mode is compared forward by
    forward: that of each rank at the moment when one has changed.
    """
    by_model: dict[tuple[int, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _MODE):
        by_model.setdefault((one.facts["model"], tuple(one.facts["ranks"])), []).append(one)
    for (_, ranks), changes in by_model.items():
        for moment in sorted({one.facts["since"] for one in changes}):
            latest = {one.rank: one for one in changes if one.facts["since"] <= moment}
            resting = [one for one in latest.values() if not one.facts["training"]]
            if len(latest) == len(ranks) and 0 < len(resting) < len(ranks):
                yield _finding(resting, sorted(set(ranks) - {one.rank for one in resting}))
                break


def _finding(resting: list[Noted], others: list[int]) -> Finding:
    ranks, facts = [one.rank for one in resting], resting[0].facts
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=ranks,
        places=[place for one in resting for place in one.places],
        what=f"{do(ranks, 'trains')} in evaluation mode from forward {facts['since']} on, "
        f"and {do(others, 'trains')} in training mode: {listed(facts['parts'])} differ by it",
        mend="call model.train() on every rank before each epoch: model.eval() holds until then",
    )


JUDGE = Judge(_modes)
