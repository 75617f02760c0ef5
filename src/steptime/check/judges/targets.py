"""Targets: losses that average over each rank's own, of which some ranks have many more."""

from collections.abc import Iterator
from statistics import median

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.replicating import with_ranks
from steptime.words import listed

_TARGETS, _WEIGHED = "targets", "weighed"
_LEAST, _APART = 4, 1.5
"""So many losses are compared, and in half of them the ranks' targets differ by such a factor."""


def _targets(job: Job) -> Iterator[Finding]:
    """Means of ranks with unlike numbers of targets, none of which tells the others its own."""
    if any(noted(job, _WEIGHED)):
        return
    losses: dict[tuple[tuple[int, ...], int], list[Noted]] = {}
    for one, ranks in with_ranks(job, _TARGETS):
        losses.setdefault((ranks, one.facts["number"]), []).append(one)
    by_group: dict[tuple[int, ...], list[list[Noted]]] = {}
    for (among, _), each in losses.items():
        if len(each) == len(among):
            by_group.setdefault(among, []).append(each)
    for whole in by_group.values():
        if len(whole) >= _LEAST and median(map(_apart, whole)) >= _APART:
            yield _finding(max(whole, key=_apart))


def _apart(ranks: list[Noted]) -> float:
    """How many times as many targets one rank has as another."""
    counted: list[int] = [one.facts["counted"] for one in ranks]
    return max(counted) / max(1, min(counted))


def _finding(ranks: list[Noted]) -> Finding:
    counted = {one.rank: one.facts["counted"] for one in ranks}
    fewest, most = min(counted, key=counted.__getitem__), max(counted, key=counted.__getitem__)
    told = listed([f"{counted[rank]:,} on rank {rank}" for rank in sorted((fewest, most))])
    return Finding(
        kind=FindingKind.DATA,
        remark=True,
        ranks=sorted(counted),
        places=[place for one in ranks for place in one.places],
        what=f"the loss averages over each rank's own targets, as {told}, and the "
        f"ranks' gradients are averaged alike: there a target of rank {fewest} counts "
        f"{_apart(ranks):.1f} times one of rank {most}",
        mend="divide by the targets of all: cross_entropy(…, reduction='sum') · ranks / count, "
        "where count is summed up by all_reduce, for the gradients are divided by the ranks",
    )


JUDGE = Judge(_targets)
