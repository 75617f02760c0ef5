"""Idle: ranks whose optimizers never step where those of other ranks do."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import do, ranks_named

_IDLE, _STEPPED = "idle", "stepped"


def _idle(job: Job) -> Iterator[Finding]:
    """The first optimizer that some ranks step and others, which have its gradients, do not."""
    stepped, idle = (_by_optimizer(job, what) for what in (_STEPPED, _IDLE))
    for of, those in idle.items():
        others = stepped.get(of, [])
        late = {one.rank for one in others}
        never = [one for one in those if one.rank not in late]
        if never and others:
            who, where = [one.rank for one in others], [one.rank for one in never]
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=where,
                places=[place for one in (*others, *never) for place in one.places],
                what=f"the optimizer that {do(who, 'steps')} makes no step on "
                f"{ranks_named(where)}, where gradients are computed all the same: the parameters "
                "there stay as they began",
                mend="call optimizer.step() on every rank: each has a replica of its own",
            )
            return


def _by_optimizer(job: Job, what: str) -> dict[tuple[int, tuple[int, ...]], list[Noted]]:
    """What was noted of each optimizer, by its number and the elements of its parameters."""
    found: dict[tuple[int, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, what):
        found.setdefault((one.facts["number"], tuple(one.facts["elements"])), []).append(one)
    return found


JUDGE = Judge(_idle)
