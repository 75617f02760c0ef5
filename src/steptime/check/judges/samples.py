"""Samples: ranks that are given some of what others are given, in other batches."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import batches
from steptime.check.judging import Judge
from steptime.check.words import ranks_named

_LEAST = 4  # batches
_PART = 1 / 16
"""The part of all samples looked at that others have, too: a padded pass ends with a few."""


@dataclass(frozen=True)
class _Overlap:
    """How many ``batches`` of all ranks hold some samples of another rank's, at most half of them.

    ``shared``: so many samples of all that were looked at, which are ``looked``.
    """

    batches: int
    shared: int
    looked: int


def _samples(job: Job) -> Iterator[Finding]:
    """Ranks whose parts of the data overlap, as where each shuffles by a seed of its own.

    A second pass gives most ranks what others had in the first: whole batches of it. Where a rank
    meets a sample of its own again, by then at the latest, nothing more is looked at.
    """
    if any(batches.JUDGE.judge(job)):
        return
    for by_rank in batches.batches_of(job):
        found = _overlap(by_rank)
        if found.batches >= _LEAST and found.shared >= _PART * found.looked:
            ranks = sorted(by_rank)
            yield Finding(
                kind=FindingKind.DATA,
                remark=True,
                ranks=ranks,
                places=[place for rank in ranks for place in by_rank[rank].places],
                what=f"of the first {found.looked} samples that were looked at of what "
                f"{ranks_named(ranks)} are given {found.shared} had been given to another rank: "
                "their parts of the data overlap, so a pass takes some samples several times and "
                "others never",
                mend="let every rank take its part of one order: shuffle by a seed that is the "
                "same on all, as DistributedSampler does, and restore an order on all ranks or on "
                "none",
            )
            return


def _overlap(by_rank: Mapping[int, batches.Batches]) -> _Overlap:
    """What ranks share of their first batches, until one meets a sample of its own again."""
    own: dict[int, set[int]] = {rank: set() for rank in by_rank}
    sizes, known = [], []
    for number in batches.given_to_all(by_rank):
        rows = {rank: of_rank.rows[number] for rank, of_rank in by_rank.items()}
        if any(not of or own[rank].intersection(of) for rank, of in rows.items()):
            break
        for rank, of in rows.items():
            others = set().union(*(own[other] for other in by_rank if other != rank))
            sizes.append(len(of))
            known.append(len(others.intersection(of)))
        for rank, of in rows.items():
            own[rank].update(of)
    return _Overlap(
        batches=sum(0 < of <= size / 2 for of, size in zip(known, sizes, strict=True)),
        shared=sum(known),
        looked=sum(sizes),
    )


JUDGE = Judge(_samples)
