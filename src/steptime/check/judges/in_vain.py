"""In vain: an optimizer that steps parameters which the model has no more."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_IN_VAIN = "in vain"


def _in_vain(job: Job) -> Iterator[Finding]:
    """Optimizers of which no parameter ever got a gradient, whatever backwards there were."""
    for one in seen(job, _IN_VAIN, ("optimizer", "cleared", "at")):
        steps = f"{one.facts['optimizer']} steps at {one.facts['at']}"
        if one.facts["cleared"]:
            what = f"{steps} after its gradients were cleared, of each backward: nothing is trained"
            mend = "call zero_grad before the backward, or after the step"
        else:
            what = f"{steps}, and no backward gives any of its parameters a gradient: the model "
            what += "that runs has others, and nothing is trained"
            mend = "make the optimizer of model.parameters() last, after fully_shard, "
            mend += "parallelize_module or whatever else gives the model new parameters"
        yield Finding(
            kind=FindingKind.RACE, ranks=one.ranks, places=one.places("at"), what=what, mend=mend
        )


JUDGE = Judge(_in_vain)
