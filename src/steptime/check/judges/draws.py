"""Draws: ranks whose batches differ, but for numbers that each draws by the same seed."""

from collections.abc import Iterator, Mapping

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.batches import LEAST, Batches, batches_of, given_to_all
from steptime.check.judging import Judge
from steptime.check.words import ranks_named

_EXCHANGE = ("all_to_all", "send", "recv")
"""What ranks make that share each sample: its noise is the same for all of its parts."""


def _draws(job: Job) -> Iterator[Finding]:
    """An argument of a model that is alike on all ranks in each batch, as no other one is."""
    for by_rank in batches_of(job):
        seen = given_to_all(by_rank)
        if len(by_rank) < 2 or len(seen) < LEAST or _share_samples(job, by_rank):
            continue
        drawn = list(zip(*(one.drawn for one in by_rank.values()), strict=False))
        alike, unlike = [], []
        for at in (number for number, of in enumerate(drawn) if all(of)):
            values = [_values(by_rank, batch, at) for batch in seen]
            changes = len(set().union(*values)) > len(seen) // 2
            if changes and all(len(one) == 1 for one in values):
                alike.append(at)
            elif all(len(one) == len(by_rank) for one in values):
                unlike.append(at)
        if alike and unlike:
            yield Finding(
                kind=FindingKind.DATA,
                remark=True,
                ranks=sorted(by_rank),
                places=[place for one in by_rank.values() for place in one.places],
                what=f"{ranks_named(sorted(by_rank))} train on samples of their own, but number "
                f"{alike[0] + 1} of the {len(drawn)} tensors that the model is given is the same "
                "on all of them in each batch, as where each draws noise or time steps by the same "
                "seed: a step sees fewer of them than it takes",
                mend="draw them by a seed that differs by rank, as torch.manual_seed(seed + rank), "
                "once the model is made",
            )


def _values(by_rank: Mapping[int, Batches], batch: int, at: int) -> set[int]:
    """The hashes of one tensor of a batch on all ranks."""
    return {one.hashes[batch][at] for one in by_rank.values() if at < len(one.hashes[batch])}


def _share_samples(job: Job, ranks: Mapping[int, Batches]) -> bool:
    """Whether the ranks exchange activations, and so each has a part of every sample."""
    calls = (call for rank in ranks for call in job.calls.of_rank[rank])
    return any(call.kind.startswith(_EXCHANGE) for call in calls)


JUDGE = Judge(_draws)
