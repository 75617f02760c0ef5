"""Accumulation: gradients reduced in every micro-batch, of which the last would do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import (
    LEAST_GAIN,
    RankSteps,
    StepCall,
    cost,
    lost_beside,
    places,
    step_length,
    steps_of,
)
from steptime.units import format_bytes

_CLEARED = "cleared"


@dataclass(frozen=True)
class _Reducer:
    """What reduces gradients for a script, by which calls, and how it is told to wait."""

    name: str
    kinds: frozenset[str]
    mend: str

    def may_wait(self, call: StepCall) -> bool:
        """Whether a call reduces gradients before the last backward of a step."""
        return call.kind in self.kinds and call.of_replicas and bool(call.backwards_left)


_FSDP = _Reducer(
    "FSDP",
    frozenset({"reduce_scatter", "all_reduce"}),
    "let none but the last micro-batch reduce: model.set_requires_gradient_sync(False) before the "
    "others, or no_sync() of FSDP1. Every rank then keeps whole gradients until the last, "
    "{size} here",
)
_DDP = _Reducer(
    "DDP",
    frozenset({"all_reduce"}),
    "run forward and backward of all but the last micro-batch within model.no_sync()",
)


def _accumulation(job: Job) -> Iterator[Finding]:
    """Steps of several backwards in which all gradients are reduced each time.

    Not where they are cleared in between: something was done with those of each, as in SAM.
    """
    if any(facts_of(log, _CLEARED) for log in job.logs):
        return
    ranks = steps_of(job)
    shards = any(call.kind == "reduce_scatter" and _FSDP.may_wait(call) for call in _calls(ranks))
    reducer = _FSDP if shards else _DDP
    early = [call for call in _calls(ranks) if reducer.may_wait(call)]
    if not early or len({call.step for call in early}) < ranks[0].number // 2:
        return
    left = {call.backwards_left or 0 for call in early}
    if left != set(range(1, max(left) + 1)):
        return  # some micro-batches are not reduced: no habit, but a drift
    may_wait = reducer.may_wait
    gain = max(cost(ranks, may_wait), lost_beside(ranks, may_wait)) / step_length(ranks)
    if gain >= LEAST_GAIN:
        sites = list(dict.fromkeys(call.site for call in early))
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"{reducer.name} reduces all gradients in each of the {1 + max(left)} backwards "
            f"of a step, at {' and '.join(map(str, sites))}: only their sum is used",
            mend=reducer.mend.format(size=_whole(early)),
            gain=gain,
        )


def _calls(ranks: Sequence[RankSteps]) -> list[StepCall]:
    """Those of the first rank: all make the same."""
    return ranks[0].calls if ranks else []


def _whole(early: Sequence[StepCall]) -> str:
    """The gradients of a rank before they are cut into shards: what a first backward scatters."""
    first = early[0]
    return format_bytes(
        sum(
            call.size
            for call in early
            if (call.step, call.backwards_left) == (first.step, first.backwards_left)
            and call.kind == "reduce_scatter"
        )
    )


JUDGE = Judge(_accumulation)
