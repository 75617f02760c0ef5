"""Sharding: a checkpoint that some ranks alone had loaded before a model was sharded."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import noted, places_of
from steptime.check.words import do, ranks_named

_SHARDED = "sharded"


def _sharding(job: Job) -> Iterator[Finding]:
    """Shards of what was loaded, beside shards of what nobody has written to since it was made."""
    ranks = noted(job, _SHARDED)
    loaded = [one for one in ranks if one.facts["loaded"]]
    own = [one for one in ranks if one.facts["own"] and not one.facts["loaded"]]
    if loaded and own:
        with_it, others = ([one.rank for one in each] for each in (loaded, own))
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=sorted(with_it + others),
            places=[place for one in loaded for place in places_of(one.log, one.facts["loaded_at"])]
            + [place for one in own for place in one.places],
            what=f"{do(with_it, 'loads')} a state before fully_shard, and {do(others, 'loads')} "
            "none: it sends nothing, so the shards there are of what the model began with, and "
            f"but a part of it is that of {ranks_named(with_it)}",
            mend="load on every rank before fully_shard, or after it by set_model_state_dict with "
            "StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)",
        )


JUDGE = Judge(_sharding)
