"""Left empty: parameters that are trained from what their memory held."""

from collections.abc import Iterator

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of

_LEFT_EMPTY = "left empty"


def _left_empty(job: Job) -> Iterator[Finding]:
    """Ranks that step by parameters which nobody has written to since ``to_empty()``.

    Where one rank finds garbage in a parameter nobody wrote zeros to it on another, either.
    """
    every_rank = noted(job, _LEFT_EMPTY)
    garbage = {name for one in every_rank for name in one.facts["names"]}
    ranks = [
        one
        for one in every_rank
        if not garbage.isdisjoint((*one.facts["names"], *one.facts["may"]))
    ]
    if not ranks:
        return
    first = max(ranks, key=lambda one: len(one.facts["names"]))
    names, every = first.facts["names"], first.facts["of"]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    which = "all parameters" if len(names) == every else f"{names[0]}{more} of {every} parameters"
    yield Finding(
        kind=FindingKind.RACE,
        ranks=[one.rank for one in ranks],
        places=[place for one in ranks for place in _places(one)],
        what=f"the first step finds {which} as to_empty() has left them: nobody has written to "
        "their memory, and what happened to be there is trained",
        mend="initialise the modules after to_empty(), as by reset_parameters() of each that has "
        "it, or load a state, by set_model_state_dict with broadcast_from_rank0=True",
    )


def _places(one: Noted) -> list[CallSite]:
    return [*places_of(one.log, one.facts["emptied_at"]), *one.places]


JUDGE = Judge(_left_empty)
