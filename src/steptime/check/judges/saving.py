"""Saving: a training that stands still for its checkpoints for a good part of its time."""

from collections.abc import Iterator, Mapping
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import RankSteps, places, steps_of

_FILE = "file"
_LEAST_GAIN, _LEAST_NS, _FEWEST = 0.1, 5e8, 3
"""A toy saves in less, and one or two checkpoints are none too many."""


def _saving(job: Job) -> Iterator[Finding]:
    """The rank that saves longest between its first step and its last; the others wait for it."""
    ranks = steps_of(job)
    longest = max(ranks, key=_took_ns, default=None)
    if longest is None:
        return
    saves, took = _saves(longest), _took_ns(longest)
    gain = took / float(longest.bounds[-1] - longest.bounds[0])
    if len(saves) < _FEWEST or took < _LEAST_NS or gain < _LEAST_GAIN:
        return
    rank = longest.log.rank
    yield Finding(
        kind=FindingKind.SLOW,
        ranks=[rank],
        places=places([longest], [longest.site(facts["at"]) for facts in saves]),
        what=f"rank {rank} saves {len(saves)} times in {longest.number} steps, for "
        f"{took / len(saves) / 1e9:.2f} s each: {gain:.0%} of the time, in which nothing is "
        "trained",
        mend="save more seldom, or beside the training: torch.distributed.checkpoint.async_save, "
        "or a thread that writes a copy of the state",
        gain=gain,
    )


def _took_ns(steps: RankSteps) -> int:
    """How long the saves of a rank took in all, in nanoseconds."""
    return sum(facts["end_ns"] - facts["begin_ns"] for facts in _saves(steps))


def _saves(steps: RankSteps) -> list[Mapping[str, Any]]:
    """The saves that a rank's steps waited for: not mere openings."""
    return [
        facts
        for facts in facts_of(steps.log, _FILE)
        if facts["writes"]
        and not facts.get("beside")
        and facts["end_ns"] > facts["begin_ns"]
        and steps.step_of(facts["begin_ns"]) is not None
    ]


JUDGE = Judge(_saving)
