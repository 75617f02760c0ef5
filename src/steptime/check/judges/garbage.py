"""Garbage: steps that wait for Python's garbage collector, now on one rank and now on another."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from steptime.arrays import Floats
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import LEAST_GAIN, RankSteps, places, steps_of
from steptime.record.read import Site

_GARBAGE = "garbage"
_LEAST_NS = 3e8
"""A toy's collections take less in all."""


def _garbage(job: Job) -> Iterator[Finding]:
    """The time in which ranks collect: in each step all wait for the one that takes longest."""
    ranks = steps_of(job)
    if not ranks:
        return
    took = np.array([_took(one) for one in ranks])
    stood = took.max(axis=0).sum()
    lasted = max(float(one.bounds[-1] - one.bounds[0]) for one in ranks)
    if stood >= _LEAST_NS and stood / lasted >= LEAST_GAIN:
        collecting = [one for one, of_rank in zip(ranks, took, strict=True) if of_rank.any()]
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in collecting],
            places=[place for one in collecting for place in places([one], _lines(one))],
            what=f"Python collects garbage in {np.count_nonzero(took.max(axis=0))} of "
            f"{took.shape[1]} steps, for {took[took > 0].mean() / 1e6:.0f} ms each, and the other "
            "ranks wait",
            mend="call gc.freeze() when all is built, and gc.disable(); then gc.collect(1) on all "
            "ranks at the same step, every hundred or so; or keep large tables in arrays, not in "
            "lists and dicts of Python",
            gain=float(stood / lasted),
        )


def _took(one: RankSteps) -> Floats:
    """What collections of a rank take in each step, in nanoseconds: shape (steps,)."""
    found = np.zeros(one.number)
    for facts in facts_of(one.log, _GARBAGE):
        step = one.step_of(facts["begin_ns"])
        if step is not None:
            found[step] += facts["end_ns"] - facts["begin_ns"]
    return found


def _lines(one: RankSteps) -> list[Site]:
    """The line during which most of them came."""
    by_line = Counter(
        one.site(facts["at"])
        for facts in facts_of(one.log, _GARBAGE)
        if one.step_of(facts["begin_ns"]) is not None
    )
    return [line for line, _ in by_line.most_common(1)]


JUDGE = Judge(_garbage)
