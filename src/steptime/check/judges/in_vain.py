"""In vain: an optimizer whose steps train nothing, as of parameters that the model has no more."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.words import do

_IN_VAIN = "in vain"
_NAMES = ("optimizer", "cleared", "held_back", "without_backward", "at")


def _in_vain(job: Job) -> Iterator[Finding]:
    """Optimizers of which no parameter ever got a gradient, whatever backwards there were."""
    for one in seen(job, _IN_VAIN, _NAMES):
        steps = f"{one.facts['optimizer']} steps at {one.facts['at']}"
        if one.facts["without_backward"]:
            what = f"{steps}, and {do(one.ranks, 'makes')} no backward at all: no parameter gets a "
            what += "gradient, and nothing is trained there"
            mend = "call backward on every rank; a stage of a pipeline receives the gradient of "
            mend += "what it has sent, and calls sent.backward(gradient)"
        elif one.facts["cleared"]:
            what = f"{steps} after its gradients were cleared, of each backward: nothing is trained"
            mend = "call zero_grad before the backward, or after the step"
        elif one.facts["held_back"]:
            what = f"{steps} though the gradients of each backward are held back: after "
            what += "set_requires_gradient_sync(False) none is reduced, and nothing is trained"
            mend = "call set_requires_gradient_sync(True) before the backward of the last "
            mend += "micro-batch of each step"
        else:
            what = f"{steps}, and no backward gives any of its parameters a gradient: the model "
            what += "that runs has others, and nothing is trained"
            mend = "make the optimizer of model.parameters() last, after fully_shard, "
            mend += "parallelize_module or whatever else gives the model new parameters"
        yield Finding(
            kind=FindingKind.RACE, ranks=one.ranks, places=one.places("at"), what=what, mend=mend
        )


JUDGE = Judge(_in_vain)
