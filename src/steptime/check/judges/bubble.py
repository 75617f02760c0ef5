"""Bubble: pipelines whose stages wait for each other, for want of micro-batches under way."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.pipelines import Pipeline, is_message, pipelines
from steptime.check.steps import RankSteps, places, steps_of, waited
from steptime.check.words import ranks_named
from steptime.record.read import Site

_LEAST_GAIN = 0.1


def _bubbles(job: Job) -> Iterator[Finding]:
    """Pipelines of fewer micro-batches than stages, or of one at a time, by what stages wait.

    The step of m micro-batches on p stages lasts as long as the slowest stage works on m + p - 1 of
    them, and it works on m (GPipe, arXiv 1811.06965). What is told is what twice as many save:
    with more the bubble goes on to shrink, but each may be too small to be computed well. Of those
    that pass one at a time it is what as many save that are under way together.
    """
    for one in pipelines(steps_of(job)):
        number, ranks = len(one.stages), [stage.log.rank for stage in one.stages]
        in_turn = one.at_once == 1 < one.micro_batches
        if one.micro_batches >= number and not in_turn:
            continue
        length = max(stage.length for stage in one.stages)
        idle = float(np.median(waited(one.stages, is_message), axis=1).min()) / length
        wanted = one.micro_batches * (1 if in_turn else 2)
        gain = 1 - (1 - idle) * (wanted + number - 1) / wanted
        if gain >= _LEAST_GAIN:
            how, mend = _in_turn(one) if in_turn else _few(one, wanted)
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=sorted(ranks),
                places=_places(one.stages),
                what=f"{ranks_named(ranks)} are a pipeline {how}: each stage waits for the others "
                f"at least {100 * idle:.0f}% of the time",
                mend=mend,
                gain=gain,
            )


def _few(one: Pipeline, wanted: int) -> tuple[str, str]:
    return (
        f"whose step has {one.micro_batches} micro-batch{'es' * (one.micro_batches > 1)}",
        f"cut the batch into {wanted} micro-batches, and into more as long as the step becomes "
        "shorter, so that all stages work at the same time",
    )


def _in_turn(one: Pipeline) -> tuple[str, str]:
    return (
        f"that lets one of its {one.micro_batches} micro-batches come back before it begins the "
        "next",
        "send several before the first gradient is waited for, as GPipe and 1F1B do, so that all "
        "stages work at the same time",
    )


def _places(stages: Sequence[RankSteps]) -> list[CallSite]:
    """The line of each stage at which it waits the longest."""
    found = []
    for one in stages:
        by_line = Counter[Site]()
        for call in filter(is_message, one.calls):
            by_line[call.site] += call.waited
        found += places([one], [site for site, _ in by_line.most_common(1)])
    return found


JUDGE = Judge(_bubbles)
