"""Order: models under DDP whose ranks have the same parts in another order each."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.words import ranks_named
from steptime.check.wrapped import wrapped_in_other_order
from steptime.words import listed

_DOES = {
    "parameters": "copies and sums up one for another",
    "buffers": "copies those of rank 0 into others",
}


def _order(job: Job) -> Iterator[Finding]:
    """The first such model: DDP knows parameters and buffers by their numbers alone."""
    found = wrapped_in_other_order(job)
    if found is None or found.in_other_order is None:
        return
    what, names = found.in_other_order
    number, of_number = next(
        (number, of_number)
        for number, of_number in enumerate(zip(*names.values(), strict=True))
        if len(set(of_number)) > 1
    )
    ranks_of: dict[str, list[int]] = {}
    for rank, name in zip(names, of_number, strict=True):
        ranks_of.setdefault(name, []).append(rank)
    told = listed([f"{name} on {ranks_named(ranks)}" for name, ranks in ranks_of.items()])
    yield Finding(
        kind=FindingKind.MISMATCH,
        ranks=sorted(names),
        places=found.places,
        what=f"DistributedDataParallel wraps a {found.model} whose {what} the ranks have in "
        f"other orders: number {number} is {told}. It knows them by their numbers, and so "
        f"{_DOES[what]}",
        mend="Build the parts of the model in the same order on every rank: that of a set differs "
        "from process to process, so sort it.",
    )


JUDGE = Judge(_order)
