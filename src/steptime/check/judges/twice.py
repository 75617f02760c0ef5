"""Twice: gradients that DistributedDataParallel has averaged, and that the script reduces again."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import noted
from steptime.check.steps import LEAST_GAIN, StepCall, cost, places, step_length, steps_of

_TWICE = "reduced twice"


def reduced_twice(job: Job) -> bool:
    """Whether a model's gradients are reduced by DDP and by the script."""
    return bool(noted(job, _TWICE))


def _twice(job: Job) -> Iterator[Finding]:
    """The reductions between backward and update, where DDP has reduced in the backward."""
    ranks = steps_of(job) if reduced_twice(job) else []
    if ranks and (gain := cost(ranks, _may) / step_length(ranks)) >= LEAST_GAIN:
        sites = dict.fromkeys(call.site for one in ranks for call in one.calls if _may(call))
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"{' and '.join(map(str, sites))} reduces gradients that DistributedDataParallel "
            "has averaged in the backward: they are the same on all ranks by then",
            mend="leave it out: what loss.backward() leaves is the mean over all ranks",
            gain=gain,
        )


def _may(call: StepCall) -> bool:
    return call.direct and call.before_update and call.kind == "all_reduce"


JUDGE = Judge(_twice)
