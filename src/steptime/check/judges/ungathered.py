"""Ungathered: shards that are trained in each step, of which others have what they had first."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import RankSteps, StepCall, places, steps_of
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, Site

_SCATTERS, _GATHERS = "reduce_scatter", "all_gather"
_REDUCES = ("all_reduce", "reduce", "barrier")
_FIRST, _LEAST = 1, 3
"""Steps in which weights may be gathered first, and later ones that must be there to be judged.

They are counted from the first step of an optimizer: what comes before is in none.
"""

_SMALL = 0.25
"""What is summed up besides, as norms and losses, is less than so much of what is scattered."""


def _ungathered(job: Job) -> Iterator[Finding]:
    """Scripts that scatter gradients to shards, and gather weights in their first steps alone.

    Rajbhandari et al. 2020, "ZeRO", section 5: after each step all ranks need what it has made of
    the shards, by all_gather, broadcast or whatever brings a rank something of another.
    """
    ranks = steps_of(job)
    if not ranks or ranks[0].number < _FIRST + _LEAST:
        return
    if not all(map(_keeps, ranks)):
        return
    gathered = [site for one in ranks if (site := _gathered_at(one.log))]
    if len(gathered) == len(ranks):
        scatters = next(call.site for call in _own(ranks[0]) if call.kind == _SCATTERS)
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, [gathered[0], scatters]),
            what=f"the ranks scatter gradients at {scatters} in every step, and gather weights at "
            f"{gathered[0]} before the first alone: after that nothing brings a rank what others "
            "have made of their shards, and it computes with those that they had",
            mend="gather what each layer needs in every forward, or after every step: drop what "
            "was gathered before, once an optimizer has stepped",
        )


def _keeps(one: RankSteps) -> bool:
    """Whether a rank gets gradients of others in each step, and nothing else."""
    later = [call for call in _own(one) if call.step >= _FIRST]
    scattered = sum(call.size for call in later if call.kind == _SCATTERS)
    summed = sum(call.size for call in later if call.kind in _REDUCES)
    brought = any(call.kind not in (_SCATTERS, *_REDUCES) for call in later)
    every = {call.step for call in later if call.kind == _SCATTERS}
    steady = len(every) == one.number - _FIRST
    return steady and not brought and summed < _SMALL * scattered


def _gathered_at(log: ProcessLog) -> Site | None:
    """Where a rank has gathered last."""
    sites = [
        int(call["site"])
        for call in log.calls
        if OPERATIONS[call["operation"]].kind == _GATHERS
        and len(log.groups[int(call["group"])].ranks) > 1
    ]
    return log.sites.get(sites[-1]) if sites else None


def _own(one: RankSteps) -> Sequence[StepCall]:
    """The calls that the script makes itself, among several ranks."""
    return [call for call in one.calls if call.direct and call.group_size > 1]


JUDGE = Judge(_ungathered)
