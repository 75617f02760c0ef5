"""Small buckets: what DDP reduces, or FSDP gathers, in pieces as small as single layers."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.tiny_calls import TINY_BYTES
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
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

_WRAPPED = "wrapped"
_MANY_BUCKETS, _MANY_CALLS = 16, 48
"""So many a step are told: a model that is made to learn from has a few units of single layers."""

_LAYERS = 4
"""A block of a model has so many layers at least, each of which is no unit then."""

_FIRST, _BUCKET = 1 << 20, 25 << 20
"""The bytes of DDP's buckets unless told otherwise, the first of a backward and the others."""

_SHARDED = ("all_gather", "reduce_scatter")


def _small_pieces(job: Job) -> Iterator[Finding]:
    ranks = steps_of(job)
    if ranks:
        yield from _buckets(ranks)
        yield from _units(ranks)


def _buckets(ranks: Sequence[RankSteps]) -> Iterator[Finding]:
    """Steps of many tiny reductions by DDP, of which a few would do."""
    reductions = [call for call in ranks[0].calls if _is_bucket(call)]
    number, mean = _per_step(reductions, ranks[0])
    needed = 1 + -(-max(0, number * mean - _FIRST) // _BUCKET)
    if number >= max(_MANY_BUCKETS, 2 * needed) and mean <= TINY_BYTES:
        spent = max(cost(ranks, _is_bucket), lost_beside(ranks, _is_bucket))
        gain = spent * (1 - needed / number) / step_length(ranks)
        wrapped = [at for one in ranks for at in _wrapped_at(one)]
        if gain >= LEAST_GAIN:
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=[one.log.rank for one in ranks],
                places=wrapped or places(ranks, [call.site for call in reductions]),
                what=f"DistributedDataParallel reduces {number} buckets a step, of {mean} bytes on "
                f"average, where {needed} would hold all gradients: each waits for messages of "
                "its own",
                mend="leave bucket_cap_mb out, or give it so many MB that a step has a few buckets",
                gain=gain,
            )


def _units(ranks: Sequence[RankSteps]) -> Iterator[Finding]:
    """Steps of many tiny calls of a sharded model, which has a unit for each of its layers."""
    units = [call for call in ranks[0].calls if _is_of_unit(call)]
    number, mean = _per_step(units, ranks[0])
    gain = cost(ranks, _is_of_unit) * (1 - 1 / _LAYERS) / step_length(ranks)
    if number >= _MANY_CALLS and mean <= TINY_BYTES and gain >= LEAST_GAIN:
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, [call.site for call in units]),
            what=f"the sharded model makes {number} calls a step, of {mean} bytes on average: "
            "each waits for messages of its own",
            mend="give fully_shard whole blocks of the model, not single layers",
            gain=gain,
        )


def _per_step(calls: Sequence[StepCall], steps: RankSteps) -> tuple[int, int]:
    """How many there are in a step, and their bytes on average."""
    mean = sum(call.size for call in calls) // len(calls) if calls else 0
    return len(calls) // steps.number, mean


def _is_bucket(call: StepCall) -> bool:
    return call.kind == "all_reduce" and call.of_replicas and call.backwards_left is not None


def _is_of_unit(call: StepCall) -> bool:
    return call.kind in _SHARDED and call.of_replicas and not call.within_update


def _wrapped_at(steps: RankSteps) -> list[CallSite]:
    """Where the script wraps its models."""
    return [
        place
        for facts in facts_of(steps.log, _WRAPPED)
        for place in places_of(steps.log, facts["at"])
    ]


JUDGE = Judge(_small_pieces)
