"""Preparing: loops that make each batch themselves, in turn with the training."""

from collections.abc import Iterator, Mapping

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import RankSteps, places, step_length, steps_of
from steptime.record.read import Site

_PREPARED = "prepared"
_LEAST_PART, _LEAST_NS = 0.25, 5e6
"""Of a step, and of a line in it: a toy is soon done with anything."""


def _preparing(job: Job) -> Iterator[Finding]:
    """A line at which all ranks are for a good part of each step, before its forward."""
    ranks = steps_of(job)
    prepared = [_prepared(one) for one in ranks]
    lines = set.intersection(*map(set, prepared)) if prepared else set()
    of_line = {line: min(each[line] for each in prepared) for line in lines if line.file}
    line = max(of_line, key=lambda one: of_line[one], default=None)
    if line is None or of_line[line] < max(_LEAST_PART * step_length(ranks), _LEAST_NS):
        return
    part = of_line[line] / step_length(ranks)
    yield Finding(
        kind=FindingKind.SLOW,
        ranks=[one.log.rank for one in ranks],
        places=places(ranks, [line]),
        what=f"every rank prepares what its step works on at {line}, for {part:.0%} of the step, "
        "in which nothing is trained",
        mend="let workers prepare it meanwhile, as a Dataset behind DataLoader(…, num_workers=…), "
        "or a thread; or prepare it once, before the training",
        gain=part,
    )


def _prepared(steps: RankSteps) -> Mapping[Site, float]:
    """How long a rank's own code takes before a forward, by line: ns in the median of its steps."""
    found: dict[Site, float] = {}
    for facts in facts_of(steps.log, _PREPARED):
        for line, spent in facts["lines"]:
            site = steps.site(line)
            found[site] = found.get(site, 0.0) + spent
    return found


JUDGE = Judge(_preparing)
