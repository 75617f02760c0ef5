"""Objects: tensors that are pickled to be sent, or made whole of shards, in step after step."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

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

_OBJECTS, _WHOLE = "objects", "full_tensor"
_LEAST_BYTES = 1 << 16


def _objects(job: Job) -> Iterator[Finding]:
    """Lines that send tensors as objects in each step, by what pickling and unpickling takes."""
    ranks = steps_of(job)
    if not ranks:
        return
    noted = [
        (ranks[0].site(facts["at"]), facts)
        for facts in facts_of(ranks[0].log, _OBJECTS)
        if facts["nbytes"] >= _LEAST_BYTES
    ]
    for where in dict.fromkeys(site for site, _ in noted):
        lost = np.array([_pickled(one, where) for one in ranks])[:, : min(map(_told_of, ranks))]
        gain = median_of_steps(lost.min(axis=0).tolist()) / step_length(ranks)
        if gain >= LEAST_GAIN:
            facts = next(facts for site, facts in noted if site == where)
            what, mend = _told(facts)
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=[one.log.rank for one in ranks],
                places=places(ranks, [where]),
                what=f"{where} {what}",
                mend=mend,
                gain=gain,
            )


def _told(facts: Mapping[str, Any]) -> tuple[str, str]:
    """What a line does with tensors, and how it is mended."""
    if facts["name"] == _WHOLE:
        return (
            f"makes whole tensors of shards in each step, by full_tensor, the first of "
            f"{facts['nbytes']} bytes: every rank gathers what all others have",
            "compute on the shards, and make the result whole, as (tensor * tensor).sum()."
            "full_tensor() of a norm; or do so once in many steps",
        )
    return (
        f"sends tensors of {facts['nbytes']} bytes as objects in each step, by {facts['name']}: "
        "they are pickled, sent after their length, and unpickled",
        "send tensors as they are, as by all_gather into tensors of the same shape; or keep them, "
        "and gather once after many steps",
    )


def _told_of(steps: RankSteps) -> int:
    """How many steps there are until the last call was noted, though others followed; or all."""
    last = (one for one in facts_of(steps.log, _OBJECTS) if one["last"])
    until = next((steps.step_of(one["begin_ns"]) for one in last), None)
    return steps.number if until is None else max(1, until)


def _pickled(steps: RankSteps, where: Site) -> list[int]:
    """What such calls of a line take in each step, in ns: of objects beside what they wait for."""
    found = [0] * steps.number
    for facts in facts_of(steps.log, _OBJECTS):
        step = steps.step_of(facts["begin_ns"])
        if step is not None and steps.site(facts["at"]) == where:
            found[step] += _own(steps, facts)
    return found


def _own(steps: RankSteps, facts: Mapping[str, Any]) -> int:
    begin, end = int(facts["begin_ns"]), int(facts["end_ns"])
    if facts["name"] == _WHOLE:
        return end - begin  # who does not call it need not wait either
    waited = sum(call.waited for call in steps.calls if begin <= call.begin < end)
    return max(0, end - begin - waited)


JUDGE = Judge(_objects)
