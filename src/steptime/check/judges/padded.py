"""Padded: evaluations that count some samples twice, as a sampler gave them so."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of

_PADDED = "padded"


def _padded(job: Job) -> Iterator[Finding]:
    """The first sum over the ranks that is as many as the sampler gave, and more than there are.

    Where the samples of all are gathered and cut to the dataset's length, nothing sums up so many.
    """
    calls: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _PADDED):
        of = tuple(one.facts["of"]), tuple(one.facts["ranks"])
        calls.setdefault(of, []).append(one)
    for (_, among), ranks in calls.items():
        size, given = ranks[0].facts["size"], ranks[0].facts["given"]
        sums = [sum(each) for each in zip(*(one.facts["values"] for one in ranks), strict=False)]
        if len(ranks) == len(among) and float(given) in sums and float(size) not in sums:
            yield Finding(
                kind=FindingKind.DATA,
                remark=True,
                ranks=sorted(one.rank for one in ranks),
                places=[
                    place
                    for one in ranks
                    for place in (*places_of(one.log, one.facts["sampled_at"]), *one.places)
                ],
                what=f"the ranks evaluate {given} samples of a dataset of {size}: "
                "DistributedSampler begins the dataset anew to give each rank as many, and what it "
                "gives again counts twice",
                mend="let each rank evaluate a part of its own, as Subset(dataset, range(rank, "
                "len(dataset), ranks)), of which one may be shorter",
            )
            return


JUDGE = Judge(_padded)
