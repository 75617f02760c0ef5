"""Averages: copies of a trained model that ranks run, and that are not the same on all of them."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import ranks_named

_AVERAGE = "average"


def _averages(job: Job) -> Iterator[Finding]:
    """Copies that differ after as many steps, each told where that is seen first."""
    by_copy: dict[tuple[int, tuple[int, ...]], dict[int, list[Noted]]] = {}
    for one in noted(job, _AVERAGE):
        of_steps = by_copy.setdefault((one.facts["copy"], tuple(one.facts["ranks"])), {})
        of_steps.setdefault(one.facts["steps"], []).append(one)
    for (_, ranks), of_steps in by_copy.items():
        for steps, copies in sorted(of_steps.items()):
            if len(copies) == len(ranks) and len({one.facts["hash"] for one in copies}) > 1:
                yield _finding(copies, steps)
                break


def _finding(copies: list[Noted], steps: int) -> Finding:
    ranks, name = [one.rank for one in copies], copies[0].facts["name"]
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=ranks,
        places=[place for one in copies for place in one.places],
        what=f"{ranks_named(ranks)} run a copy of {name} without gradients after step {steps}, as "
        f"of its averaged parameters, that is not the same on all of them, though DDP keeps "
        f"{name} the same",
        mend="update the copy on every rank, from the parameters that DDP keeps equal, or "
        "broadcast it before all of them run it",
    )


JUDGE = Judge(_averages)
