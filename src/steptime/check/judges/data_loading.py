"""Data loading: steps that wait for their next batch."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import RankSteps, median_of_steps, places, step_length, steps_of
from steptime.record.events import Kind
from steptime.words import listed

_LEAST_PART = 0.2
"""Of a step: toys load in a tenth of it, and no loader takes nothing."""

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


def _loading(steps: RankSteps) -> float:
    """How long a step of a rank waits for its data, in nanoseconds."""
    spans = steps.spans(Kind.DATA)
    return median_of_steps([sum(end - begin for begin, end, _ in of_step) for of_step in spans])


JUDGE = Judge(_data_loading)
