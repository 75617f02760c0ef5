"""Clipping: ranks that clip the gradients of one model by norms of their own."""

from collections.abc import Iterator, Mapping
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of, seen
from steptime.record.read import ProcessLog, Site
from steptime.words import listed

_CLIPPED, _SUMMED_LATER = "clipped", "summed later"
_TOLERANCE = 1e-3
"""Norms of the same gradients differ by rounding alone."""


def _clipping(job: Job) -> Iterator[Finding]:
    """Gradients that are clipped before they are summed up, or each shard by its own norm."""
    clipped = _clipped(job)
    late = list(seen(job, _SUMMED_LATER, ("clipped_at", "at")))
    for one in late[:1]:
        norms = next(filter(_apart, clipped.get(one.facts["clipped_at"], {}).values()), None)
        if norms is None:
            continue  # no gradient was ever too long
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=one.ranks,
            places=[*one.places("clipped_at"), *one.places("at")],
            what=f"each rank clips its own gradients at {one.facts['clipped_at']}, to a norm of "
            f"{_most(norms):g}, and they are summed up only at {one.facts['at']}: "
            f"{_told(norms)}, so ranks count for more or less, and the sum is not of that norm",
            mend="sum the gradients up first, and clip the sum: all ranks have the same norm then",
        )
    if late:
        return
    for at, calls in clipped.items():
        sharded = [norms for norms in calls.values() if _apart(norms) and _sharded(norms)]
        for norms in sharded[:1]:
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(norms),
                places=[
                    place for log, facts in norms.values() for place in places_of(log, facts["at"])
                ],
                what=f"at {at} each rank clips by the norm of its own shard of the gradients, not "
                f"by that of all: {_told(norms)}, so the parts of one model are scaled apart",
                mend="call clip_grad_norm_ of the model that FullyShardedDataParallel returned, "
                "model.clip_grad_norm_(most), which sums the norms of all shards up",
            )


def _clipped(
    job: Job,
) -> dict[Site | None, dict[int, dict[int, tuple[ProcessLog, Mapping[str, Any]]]]]:
    """What each rank noted, by line and by how often it was called there."""
    found: dict[Site | None, dict[int, dict[int, tuple[ProcessLog, Mapping[str, Any]]]]] = {}
    for log in job.logs:
        for facts in facts_of(log, _CLIPPED):
            of_line = found.setdefault(log.sites.get(facts["at"]), {})
            of_line.setdefault(facts["number"], {})[log.rank] = log, facts
    return found


def _apart(norms: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]]) -> bool:
    """Whether ranks clip by different norms, and one of them more than it would by none."""
    values = [float(facts["norm"]) for _, facts in norms.values()]
    longest = max(values)
    return longest > _most(norms) and longest - min(values) > _TOLERANCE * longest


def _most(norms: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]]) -> float:
    return min(float(facts["most"]) for _, facts in norms.values())


def _sharded(norms: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]]) -> bool:
    return any(facts["sharded"] for _, facts in norms.values())


def _told(norms: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]]) -> str:
    told = [f"{facts['norm']:.3g} on rank {rank}" for rank, (_, facts) in sorted(norms.items())]
    return f"it was {listed(told[:4])} once"


JUDGE = Judge(_clipping)
