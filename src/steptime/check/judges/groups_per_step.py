"""Groups per step: ``new_group`` in every step, where one group would serve all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.check.calls import SET_UP, SETUP
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import (
    LEAST_GAIN,
    RankSteps,
    median_of_steps,
    places,
    step_length,
    steps_of,
)
from steptime.record.read import Site
from steptime.words import listed

_USUAL = 0.9
"""In so many of the steps a group is made where one is made in each."""


@dataclass(frozen=True)
class _Made:
    """A group that was made in a step, which took ``took`` nanoseconds."""

    step: int
    took: int
    site: Site


def _groups_per_step(job: Job) -> Iterator[Finding]:
    """Groups that are made in most steps: all ranks meet in a store for each of them."""
    ranks = steps_of(job)
    if not ranks:
        return
    made = [list(_made(one)) for one in ranks]
    steps = {one.step for one in made[0]}
    took = np.zeros((len(ranks), ranks[0].number))
    for row, of_rank in enumerate(made):
        for one in of_rank:
            took[row, one.step] += one.took
    gain = median_of_steps(took.min(axis=0).tolist()) / step_length(ranks)
    if len(steps) > _USUAL * ranks[0].number - 1 and gain >= LEAST_GAIN:
        sites = list(dict.fromkeys(one.site for one in made[0]))
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"every step makes a group at {listed([*map(str, sites)])}: all ranks meet for "
            "that and connect anew, and a group that nobody destroys keeps its memory and its "
            "connections",
            mend="make each group once, before the first step, and use it in all of them",
            gain=gain,
        )


def _made(steps: RankSteps) -> Iterator[_Made]:
    ends = {facts["number"]: facts["at_ns"] for facts in facts_of(steps.log, SET_UP)}
    for facts in facts_of(steps.log, SETUP):
        step = steps.step_of(facts["at_ns"])
        if facts["kind"] == "new_group" and step is not None and facts["number"] in ends:
            took = ends[facts["number"]] - facts["at_ns"]
            yield _Made(step, took, steps.site(facts["at"]))


JUDGE = Judge(_groups_per_step)
