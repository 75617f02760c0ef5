"""No overlap: gradients that are reduced after the backward, while nothing is computed."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.tiny_calls import TINY_BYTES
from steptime.check.judges.twice import reduced_twice
from steptime.check.judging import Judge
from steptime.check.steps import (
    LEAST_GAIN,
    RankSteps,
    StepCall,
    cost,
    median_of_steps,
    places,
    step_length,
    steps_of,
)
from steptime.record.events import Kind


def _no_overlap(job: Job) -> Iterator[Finding]:
    """Reductions of the script between backward and update, of several tensors that are large.

    All but the last could go on while the backward does, and so take no time as long as that does.
    """
    ranks = [] if reduced_twice(job) else steps_of(job)
    large = [call for one in ranks[:1] for call in one.calls if _may(call)]
    number = len(large) // ranks[0].number if ranks else 0
    if number < 2:
        return
    hidden = 1 - 1 / number
    backward = min(_backward(one) for one in ranks)
    gain = min(cost(ranks, _may), backward) * hidden / step_length(ranks)
    if gain >= LEAST_GAIN:
        sites = list(dict.fromkeys(call.site for call in large))
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"{' and '.join(map(str, sites))} reduces the gradients after the backward: "
            f"nothing is computed while they are on the way",
            mend="let DistributedDataParallel reduce each bucket as soon as the backward has "
            "filled it, or begin each reduction in a hook of its parameter with async_op=True and "
            "wait for all before the optimizer steps",
            gain=gain,
        )


def _may(call: StepCall) -> bool:
    reduces = call.kind in ("all_reduce", "reduce_scatter")
    return call.direct and call.before_update and reduces and call.size > TINY_BYTES


def _backward(steps: RankSteps) -> float:
    """How long a step of a rank is in backward, in nanoseconds."""
    spans = steps.spans(Kind.BACKWARD)
    return median_of_steps([sum(end - begin for begin, end, _ in of_step) for of_step in spans])


JUDGE = Judge(_no_overlap)
