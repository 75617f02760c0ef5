"""Saving: a training that stands still for its checkpoints for a good part of its time."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind, on_rank
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import RankSteps, steps_of

_FILE = "file"
_LEAST_GAIN, _LEAST_NS, _FEWEST = 0.1, 5e8, 3
"""A toy saves in less, and one or two checkpoints are none too many."""


def _saving(job: Job) -> Iterator[Finding]:
    """The rank that saves longest between its first step and its last; the others wait for it."""
    ranks = steps_of(job)
    longest = max(ranks, key=lambda one: sum(_saves(one)), default=None)
    if longest is None:
        return
    saves = _saves(longest)
    gain = sum(saves) / float(longest.bounds[-1] - longest.bounds[0])
    if len(saves) < _FEWEST or sum(saves) < _LEAST_NS or gain < _LEAST_GAIN:
        return
    rank = longest.log.rank
    sites = [longest.site(facts["at"]) for facts in facts_of(longest.log, _FILE) if facts["writes"]]
    yield Finding(
        kind=FindingKind.SLOW,
        ranks=[rank],
        places=[on_rank(rank, site) for site in dict.fromkeys(sites) if site.file],
        what=f"rank {rank} saves {len(saves)} times in {longest.number} steps, for "
        f"{sum(saves) / len(saves) / 1e9:.2f} s each: {gain:.0%} of the time, in which nothing is "
        "trained",
        mend="save more seldom, or beside the training: torch.distributed.checkpoint.async_save, "
        "or a thread that writes a copy of the state",
        gain=gain,
    )


def _saves(steps: RankSteps) -> list[int]:
    """How long each save took that a rank's steps waited for, in nanoseconds: not mere openings."""
    return [
        facts["end_ns"] - facts["begin_ns"]
        for facts in facts_of(steps.log, _FILE)
        if facts["writes"]
        and not facts.get("beside")
        and facts["end_ns"] > facts["begin_ns"]
        and steps.step_of(facts["begin_ns"]) is not None
    ]


JUDGE = Judge(_saving)
