"""One way: parts that are gathered from all ranks, whose gradients each rank keeps to itself."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted

_ONE_WAY = "one way"


def _one_way(job: Job) -> Iterator[Finding]:
    """Functions that call other ranks in their forward alone, where the ranks' losses differ.

    Where all compute the same loss, a rank's own slice of the gradient is all that there is.
    """
    losses = losses_of(job)
    found: dict[tuple[str, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _ONE_WAY):
        found.setdefault((one.facts["function"], tuple(one.facts["ranks"])), []).append(one)
    for (function, among), ranks in found.items():
        of_group = [losses[rank] for rank in among if rank in losses]
        if len(of_group) < len(among) or not differ(of_group):
            continue
        call = ranks[0].facts["call"]
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=[one.rank for one in ranks],
            places=[place for one in ranks for place in one.places],
            what=f"{function} makes an {call} in its forward and no call in its backward, and each "
            "rank has a loss of its own: what it computes from the parts of others sends no "
            "gradient back to them",
            mend=_MENDS[call],
        )


_MENDS = {
    "all_gather": "reduce_scatter the gradient in the backward (or all_reduce it and take the "
    "rank's own part), as torch.distributed.nn.functional.all_gather does",
    "all_to_all": "send the gradient back by all_to_all in the backward, as "
    "torch.distributed.nn.functional.all_to_all_single does",
}

JUDGE = Judge(_one_way)
