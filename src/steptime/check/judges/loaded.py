"""Loaded: checkpoints of which nothing is loaded, though nothing complains."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_LOADED = "loaded"


def _loaded(job: Job) -> Iterator[Finding]:
    """States that have none of a module's names, loaded with ``strict=False``."""
    for one in seen(job, _LOADED, ("names", "own", "given", "at")):
        facts = one.facts
        yield Finding(
            kind=FindingKind.RACE,
            ranks=one.ranks,
            places=one.places("at"),
            what=f"load_state_dict at {facts['at']} finds none of the {facts['names']} names of "
            f"the module in what it is given: {facts['own']} is asked for, and {facts['given']} "
            "is there; with strict=False that is no error, and nothing is loaded",
            mend="save model.module.state_dict() of a model under DDP, and that of "
            "model._orig_mod of a compiled one; or rename what is loaded, as "
            "torch.nn.modules.utils.consume_prefix_in_state_dict_if_present does",
        )


JUDGE = Judge(_loaded)
