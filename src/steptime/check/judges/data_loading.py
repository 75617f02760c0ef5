"""Data loading: steps that wait for their next batch, or prepare it themselves."""

from collections.abc import Iterator, Mapping

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import RankSteps, median_of_steps, places, step_length, steps_of
from steptime.record.events import Kind
from steptime.record.read import Site
from steptime.words import listed

_LEAST_PART = 0.2
"""Of a step: toys load in a tenth of it, and no loader takes nothing."""

_LEAST_PREPARED = 0.25
"""The same of the script's own lines, of which some are in no loader's place."""

_PREPARED = "prepared"
_LEAST_NS = 5e6
"""A step of a toy is soon over, and a busy machine lets its loader wait for so long."""


def _data_loading(job: Job) -> Iterator[Finding]:
    """Ranks whose steps wait for their DataLoader for a good part."""
    ranks = steps_of(job)
    if not ranks:
        return
    least = max(_LEAST_PART * step_length(ranks), _LEAST_NS)
    late = [one for one in ranks if _loading(one) >= least]
    if late:
        part = max(_loading(one) for one in late) / step_length(ranks)
        sites = [site for one in late for spans in one.spans(Kind.DATA) for *_, site in spans]
        known = [*dict.fromkeys(str(site) for site in sites if site.file)]
        where = listed(known) if known else "the DataLoader"
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in late],
            places=places(late, sites),
            what=f"each step waits for its batch at {where}, for {part:.0%} of its "
            "time: the loader cannot keep up",
            mend="let workers load ahead: DataLoader(…, num_workers=…, prefetch_factor=…), or make "
            "what a sample takes cheaper, as by preparing it once before the training",
            gain=part,
        )


def _preparing(job: Job) -> Iterator[Finding]:
    """A line at which all ranks are for a good part of each step, before its forward."""
    ranks = steps_of(job)
    prepared = [_prepared(one) for one in ranks]
    lines = set.intersection(*map(set, prepared)) if prepared else set()
    of_line = {line: min(each[line] for each in prepared) for line in lines if line.file}
    line = max(of_line, key=lambda one: of_line[one], default=None)
    if line is None or of_line[line] < max(_LEAST_PREPARED * step_length(ranks), _LEAST_NS):
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


def _loading(steps: RankSteps) -> float:
    """How long a step of a rank waits for its data, in nanoseconds."""
    spans = steps.spans(Kind.DATA)
    return median_of_steps([sum(end - begin for begin, end, _ in of_step) for of_step in spans])


def _both(job: Job) -> Iterator[Finding]:
    """What a DataLoader keeps waiting, and what the script prepares itself."""
    yield from _data_loading(job)
    yield from _preparing(job)


JUDGE = Judge(_both)
