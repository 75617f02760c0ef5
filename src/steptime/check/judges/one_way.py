"""One way: parts that are gathered from all ranks, whose gradients each rank keeps to itself."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.batches import given_to
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted

_ONE_WAY, _ALIKE = "one way", "alike"


def _one_way(job: Job) -> Iterator[Finding]:
    """Functions that call other ranks in their forward alone, where the ranks' losses differ.

    Where all compute the same loss, a rank's own slice of the gradient is all that there is: ranks
    that share layers have to, and are given the same batches for that.
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
        what, mend = _OTHER_DATA if _have_other_data(job, among) else (_KEPT, _MENDS[call])
        yield finding_of(
            ranks,
            FindingKind.DRIFT,
            what=f"{function} makes an {call} in its forward and no call in its backward, and each "
            f"rank has a loss of its own: {what}",
            mend=mend,
        )


def _have_other_data(job: Job, among: Sequence[int]) -> bool:
    """Whether ranks share layers, and sum up what theirs give, though each is given other batches.

    Experts sum up as well, but what they have gathered before.
    """
    first: dict[int, str] = {}
    for one in noted(job, _ALIKE):
        if tuple(one.facts["ranks"]) == tuple(among):
            first.setdefault(one.rank, one.facts["kind"])
    given = given_to(job)
    batches = [next(iter(given.get(rank, {}).values()), ()) for rank in among]
    return set(first.values()) == {"all_reduce"} and len(set(batches)) == len(among)


_KEPT = "what it computes from the parts of others sends no gradient back to them"
_OTHER_DATA = (
    "these ranks share layers, sum up what their parts give, and are given other batches each, so "
    "what they sum up belongs to no sample",
    "give all ranks that share layers the same batches: the parts of the data are those of the "
    "data axis",
)
_MENDS = {
    "all_gather": "reduce_scatter the gradient in the backward (or all_reduce it and take the "
    "rank's own part), as torch.distributed.nn.functional.all_gather does",
    "all_to_all": "send the gradient back by all_to_all in the backward, as "
    "torch.distributed.nn.functional.all_to_all_single does",
}

JUDGE = Judge(_one_way)
