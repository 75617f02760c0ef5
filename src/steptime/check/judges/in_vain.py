"""In vain: an optimizer that steps parameters which the model has no more."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_IN_VAIN = "in vain"


def _in_vain(job: Job) -> Iterator[Finding]:
    """Optimizers of which no parameter ever got a gradient, whatever backwards there were."""
    for one in seen(job, _IN_VAIN, ("optimizer", "at")):
        yield Finding(
            kind=FindingKind.RACE,
            ranks=one.ranks,
            places=one.places("at"),
            what=f"{one.facts['optimizer']} steps at {one.facts['at']}, and no backward gives any "
            "of its parameters a gradient: the model that runs has others, and nothing is trained",
            mend="make the optimizer of model.parameters() last, after fully_shard, "
            "parallelize_module or whatever else gives the model new parameters",
        )


JUDGE = Judge(_in_vain)
