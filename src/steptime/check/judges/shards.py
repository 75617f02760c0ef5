"""Shards: what some ranks save of tensors of which the others have the rest, and do not save it."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import do, ranks_named

_SHARDS = "shards"


def _shards(job: Job) -> Iterator[Finding]:
    """Shards that are saved on some of their ranks alone, in the whole of a job."""
    by_ranks: dict[tuple[int, ...], dict[int, Noted]] = {}
    for one in noted(job, _SHARDS):
        by_ranks.setdefault(tuple(one.facts["ranks"]), {}).setdefault(one.rank, one)
    for ranks, first in by_ranks.items():
        others = sorted(set(ranks) - set(first))
        if others and all(job.standings[rank].ended for rank in others):
            savers = sorted(first)
            number = max(one.facts["tensors"] for one in first.values())
            yield Finding(
                kind=FindingKind.RACE,
                ranks=savers,
                places=[place for one in first.values() for place in one.places],
                what=f"{do(savers, 'saves')} its part alone of {number} tensors that are sharded "
                f"over {ranks_named(ranks)}: what {do(others, 'has')} is in no file",
                mend="save them by torch.distributed.checkpoint.save on all ranks, or make them "
                "whole on all ranks first: get_model_state_dict(model, options=StateDictOptions("
                "full_state_dict=True))",
            )


JUDGE = Judge(_shards)
