"""Clipping: ranks that clip the gradients of one model by norms of their own."""

from collections.abc import Iterator, Mapping, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, seen
from steptime.check.pipelines import pipelines
from steptime.check.steps import steps_of
from steptime.check.words import ranks_named
from steptime.record.read import Site
from steptime.words import listed

_CLIPPED, _SUMMED_LATER = "clipped", "summed later"
_TOLERANCE = 1e-3
"""Norms of the same gradients differ by rounding alone."""


def _clipping(job: Job) -> Iterator[Finding]:
    """Gradients that are clipped before they are summed up, or each shard by its own norm."""
    apart = {at: each for at, calls in _clipped(job).items() if (each := _first_apart(calls))}
    late = list(seen(job, _SUMMED_LATER, ("clipped_at", "at")))
    for one in late[:1]:
        norms = apart.get(one.facts["clipped_at"], [])
        if norms:
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=one.ranks,
                places=[*one.places("clipped_at"), *one.places("at")],
                what=f"each rank clips its own gradients at {one.facts['clipped_at']}, to a norm "
                f"of {_most(norms):g}, and they are summed up only at {one.facts['at']}: "
                f"{_told(norms)}, so ranks count for more or less, and the sum is not of that norm",
                mend="sum the gradients up first, and clip the sum: all ranks have the same norm "
                "then",
            )
    for at, norms in apart.items():
        if not late and any(one.facts["sharded"] for one in norms):
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(one.rank for one in norms),
                places=[place for one in norms for place in one.places],
                what=f"at {at} each rank clips by the norm of its own shard of the gradients, not "
                f"by that of all: {_told(norms)}, so the parts of one model are scaled apart",
                mend="call clip_grad_norm_ of the model that FullyShardedDataParallel returned, "
                "model.clip_grad_norm_(most), which sums the norms of all shards up",
            )
    if not late:
        yield from _of_stages(job)


def _of_stages(job: Job) -> Iterator[Finding]:
    """The first pipeline whose stages clip, each by a norm of its own."""
    calls: dict[int, list[Noted]] = {}
    for one in noted(job, _CLIPPED):
        calls.setdefault(one.facts["number"], []).append(one)
    for pipeline in pipelines(steps_of(job)) if calls else ():
        ranks = {stage.log.rank for stage in pipeline.stages}
        by_stage = {
            number: [one for one in norms if one.rank in ranks] for number, norms in calls.items()
        }
        norms = _first_apart({at: each for at, each in by_stage.items() if len(each) == len(ranks)})
        if norms:
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(ranks),
                places=[place for one in norms for place in one.places],
                what=f"{ranks_named(sorted(ranks))} are a pipeline, and each of its stages clips "
                f"by the norm of its own gradients: {_told(norms)}, so the parts of one model are "
                "scaled apart",
                mend="clip by one norm: all_reduce the squares of what get_total_norm gives for "
                "each stage, and call clip_grads_with_norm_ by the root of their sum",
            )
            return


def _clipped(job: Job) -> Mapping[Site | None, Mapping[int, Sequence[Noted]]]:
    """What ranks noted, by line and by how often it was called there."""
    found: dict[Site | None, dict[int, list[Noted]]] = {}
    for one in noted(job, _CLIPPED):
        of_line = found.setdefault(one.log.sites.get(one.facts["at"]), {})
        of_line.setdefault(one.facts["number"], []).append(one)
    return found


def _first_apart(calls: Mapping[int, Sequence[Noted]]) -> Sequence[Noted]:
    """The first call in which the norms of ranks differ and one is longer than it may be."""
    for norms in calls.values():
        values = [float(one.facts["norm"]) for one in norms]
        longest = max(values)
        if longest > _most(norms) and longest - min(values) > _TOLERANCE * longest:
            return norms
    return []


def _most(norms: Sequence[Noted]) -> float:
    return min(float(one.facts["most"]) for one in norms)


def _told(norms: Sequence[Noted]) -> str:
    told = [f"{one.facts['norm']:.3g} on rank {one.rank}" for one in norms]
    return f"it was {listed(told[:4])} once"


JUDGE = Judge(_clipping)
