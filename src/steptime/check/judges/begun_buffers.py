"""Begun buffers: models that are sharded, and whose buffers are not the same on all ranks."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named

_BEGUN_BUFFERS = "begun buffers"


def _begun_buffers(job: Job) -> Iterator[Finding]:
    """What differs before the first forward: ``fully_shard`` sends no buffers, as DDP does."""
    models: dict[tuple[int, tuple[int, ...], tuple[str, ...]], list[Noted]] = {}
    for one in noted(job, _BEGUN_BUFFERS):
        of = one.facts["number"], tuple(one.facts["ranks"]), tuple(one.facts["names"])
        models.setdefault(of, []).append(one)
    for (_, among, names), ranks in models.items():
        if len(ranks) < len(among):
            continue
        hashes = zip(*(one.facts["hashes"] for one in ranks), strict=True)
        apart = [name for name, of in zip(names, hashes, strict=True) if len(set(of)) > 1]
        if apart:
            more = f", and {len(apart) - 1} more," if len(apart) > 1 else ""
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                f"the buffer {apart[0]} of {ranks[0].facts['model']}{more} is not the same on "
                f"{ranks_named(among)} in the first forward: fully_shard sends no buffers, so each "
                "rank computes by what to_empty(), or a seed of its own, has left there",
                "make buffers anew on every rank after to_empty(), or broadcast those of the rank "
                "that has them, before the first forward",
            )
            return


JUDGE = Judge(_begun_buffers)
