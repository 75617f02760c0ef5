"""Own losses: ranks that share layers and batches, and make a loss of their part of the outputs."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import left_out
from steptime.check.judges.batches import given_to
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.words import listed

_ALIKE, _LOSS = "alike", "loss"
_LEAST = 3  # backwards
_APART = 1e-4
"""What ranks compute alike of the same sums differs by less: it is not rounded otherwise."""


def _own_losses(job: Job) -> Iterator[Finding]:
    """Groups that sum up in forwards, and nothing else, whose losses of the same batches differ.

    Shoeybi et al. 2019, "Megatron-LM", section 3: ranks that have parts of the vocabulary sum up
    the exponentials of their logits, and the target's logit, for the loss of all. What they train
    whole, and apart by then, is told by ``left_out``.
    """
    if any(left_out.JUDGE.judge(job)):
        return
    kinds: dict[tuple[int, ...], set[str]] = {}
    for one in noted(job, _ALIKE):
        kinds.setdefault(tuple(one.facts["ranks"]), set()).add(one.facts["kind"])
    for among, of_group in kinds.items():
        numbers = range(1, _LEAST + 1)
        by_number = [losses_of(job, number) for number in numbers]
        if of_group != {"all_reduce"} or not all(each.keys() >= set(among) for each in by_number):
            continue
        apart = any(differ([each[rank] for rank in among], _APART) for each in by_number)
        if apart and _have_same_batches(job, among):
            begun = [one for one in noted(job, _LOSS) if one.facts["number"] == _LEAST]
            ranks = [one for one in begun if one.rank in among]
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                f"{ranks_named(among)} share layers and are given the same batches, and yet each "
                f"has a loss of its own, as {_told(ranks)}: it is made of a part of the outputs, "
                "as of the rank's part of the vocabulary, or what is computed beside the layers "
                "differs",
                "make the loss of all outputs: gather the logits, or sum up their exponentials and "
                "the target's logit over the ranks; and seed dropout alike outside of their parts",
            )
            return


def _have_same_batches(job: Job, among: Sequence[int]) -> bool:
    """Whether the first batches are known of all of these ranks, and are the same."""
    given, numbers = given_to(job), range(1, _LEAST + 1)
    batches = [[given.get(rank, {}).get(number) for number in numbers] for rank in among]
    return None not in batches[0] and all(each == batches[0] for each in batches)


def _told(ranks: Sequence[Noted]) -> str:
    return listed([f"{one.facts['value']:.6g} on rank {one.rank}" for one in ranks[:4]])


JUDGE = Judge(_own_losses)
