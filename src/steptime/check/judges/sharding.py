"""Sharding: what ranks of a model that is sharded do not begin with alike."""

from collections.abc import Iterator, Mapping, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of
from steptime.check.words import do, ranks_named
from steptime.words import listed

_SHARDED, _BEGUN = "sharded", "shards begun"


def _sharding(job: Job) -> Iterator[Finding]:
    loaded = list(_loaded(job))
    yield from loaded or _replicas(job)


def _replicas(job: Job) -> Iterator[Finding]:
    """The first optimizer of which ranks have the same part of a parameter, and it differs."""
    by_number: dict[int, dict[int, Noted]] = {}
    for one in noted(job, _BEGUN):
        by_number.setdefault(one.facts["number"], {})[one.rank] = one
    for of_rank in by_number.values():
        apart = [ranks for one in of_rank.values() if (ranks := _apart(one, of_rank))]
        if apart:
            ranks = sorted({rank for each in apart for rank in each})
            sets = [ranks_named(each) for each in dict.fromkeys(map(tuple, apart))]
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=ranks,
                places=[place for rank in ranks for place in of_rank[rank].places],
                what=f"{listed(sets)} have the same parts of the parameters each, and begin with "
                "other numbers in them: fully_shard sends none, and they average gradients "
                "of different models",
                mend="let all ranks begin with the same parameters: make the model by one seed "
                "before fully_shard, or load it by set_model_state_dict with "
                "StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)",
            )
            return


def _apart(one: Noted, of_rank: Mapping[int, Noted]) -> Sequence[int]:
    """The ranks that have the same part as this one of the first parameter that differs there."""
    for at, ranks in enumerate(one.facts.get("replicas", ())):
        if set(ranks) <= set(of_rank):
            hashes = {of_rank[rank].facts["hashes"][at] for rank in ranks}
            if len(hashes) > 1:
                return sorted(ranks)
    return ()


def _loaded(job: Job) -> Iterator[Finding]:
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
