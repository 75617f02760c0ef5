"""Needless: parameters that are broadcast in each step though they are equal already."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.drift import hashed_replicas, ranks_apart
from steptime.check.judging import Judge
from steptime.check.steps import (
    LEAST_GAIN,
    StepCall,
    cost,
    places,
    step_length,
    steps_of,
)
from steptime.words import listed

_FEWEST = 3


def _needless(job: Job) -> Iterator[Finding]:
    """Broadcasts of as many tensors as a model has, in most steps, where its replicas are equal.

    They are compared behind the optimizer's step, before anything is broadcast.
    """
    ranks = steps_of(job)
    models = {
        len(names)
        for (_, _, among, names), steps in hashed_replicas(job).items()
        if len(steps) >= _FEWEST
        and not ranks_apart(steps)
        and all(len(of_step) == len(among) for of_step in steps.values())
    }
    if not ranks or not models:
        return
    found = [call for call in ranks[0].calls if _may(call)]
    steps = {call.step for call in found}
    number = len(found) / ranks[0].number
    if len(steps) < 0.9 * ranks[0].number - 1 or number < 0.9 * min(models):
        return
    sites = [*dict.fromkeys(call.site for call in found)]
    gain = cost(ranks, _may) / step_length(ranks)
    if gain >= LEAST_GAIN:
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"{listed([*map(str, sites)])} broadcasts {number:.0f} tensors in each step, and "
            "the parameters are equal on all ranks before it does: reduced gradients keep them so",
            mend="broadcast once, before the first step, which DistributedDataParallel does itself",
            gain=gain,
        )


def _may(call: StepCall) -> bool:
    return call.direct and call.kind == "broadcast" and not call.within_forward


JUDGE = Judge(_needless)
