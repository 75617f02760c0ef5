"""Unequal work: backwards of which now one rank's and now another's is much the longest."""

from collections.abc import Iterator

import numpy as np

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import backwards, places, steps_of, work_alike
from steptime.record.events import Kind

_LEAST_GAIN = 0.1
_LEAST_NS = 2e6
_UNEQUAL = 1.3
"""Processors that ranks share make the same work up to so much longer than the mean."""

_USUAL = 0.75
"""A rank that has the longest backward in more of the steps is one with more to do (imbalance)."""


def _unequal_work(job: Job) -> Iterator[Finding]:
    """Steps whose longest backward, by the time that its thread ran, is much longer than the mean.

    Where ranks wait they do not run, and where a machine has other work they do not either: what is
    compared is what they had to do. Of a GPU's it is not known.
    """
    ranks = steps_of(job)
    if not ranks or not work_alike(ranks):
        return
    ran = np.zeros((len(ranks), ranks[0].number))
    for row, one in enumerate(ranks):
        for begin, _, took in backwards(one):
            if (step := one.step_of(begin)) is not None:
                ran[row, step] += took
    if not ran.all():
        return
    longest, mean = ran.max(axis=0), ran.mean(axis=0)
    lengths = np.mean([np.diff(one.bounds) for one in ranks], axis=0)
    spared = longest - mean
    gain = float(spared.sum() / lengths.sum())
    most = np.bincount(ran.argmax(axis=0), minlength=len(ranks)).max() / len(longest)
    unequal = np.median(longest / mean) >= _UNEQUAL and spared.mean() >= _LEAST_NS
    if gain < _LEAST_GAIN or not unequal or most > _USUAL:
        return
    sites = [site for spans in ranks[0].spans(Kind.BACKWARD) for *_, site in spans]
    yield Finding(
        kind=FindingKind.SLOW,
        ranks=[one.log.rank for one in ranks],
        places=places(ranks, sites),
        what=f"the ranks have unequal work, now one the most and now another: the longest backward "
        f"of a step computes for {longest.mean() / 1e6:.1f} ms, the mean of all for "
        f"{mean.mean() / 1e6:.1f} ms, and the others wait",
        mend="give each rank of a step as many tokens: sort samples into batches by their length, "
        "or pack them, rather than pad each batch to its longest",
        gain=gain,
    )


JUDGE = Judge(_unequal_work)
