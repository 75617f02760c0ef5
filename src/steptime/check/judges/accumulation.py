"""Accumulation: gradients that DDP reduces in every micro-batch, of which the last would do."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import (
    LEAST_GAIN,
    StepCall,
    cost,
    lost_beside,
    places,
    step_length,
    steps_of,
)

_CLEARED = "cleared"


def _accumulation(job: Job) -> Iterator[Finding]:
    """Steps of several backwards in which DDP reduces all gradients each time.

    Not where they are cleared in between: something was done with those of each, as in SAM.
    """
    if any(facts_of(log, _CLEARED) for log in job.logs):
        return
    ranks = steps_of(job)
    early = [call for one in ranks[:1] for call in one.calls if _may(call)]
    if not early or len({call.step for call in early}) < ranks[0].number // 2:
        return
    left = {call.backwards_left or 0 for call in early}
    if left != set(range(1, max(left) + 1)):
        return  # some micro-batches are not reduced: no habit, but a drift
    gain = max(cost(ranks, _may), lost_beside(ranks, _may)) / step_length(ranks)
    if gain >= LEAST_GAIN:
        sites = list(dict.fromkeys(call.site for call in early))
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"DDP reduces all gradients in each of the {1 + max(left)} backwards of a step, "
            f"at {' and '.join(map(str, sites))}: only their sum is used",
            mend="run forward and backward of all but the last micro-batch within model.no_sync()",
            gain=gain,
        )


def _may(call: StepCall) -> bool:
    return call.kind == "all_reduce" and not call.direct and bool(call.backwards_left)


JUDGE = Judge(_accumulation)
