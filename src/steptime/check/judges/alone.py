"""Alone: ranks that each train a model of their own on their part of the data."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted, places_of
from steptime.check.samplers import pass_among
from steptime.check.words import ranks_named

_ALONE = "alone"
_MEND = (
    "wrap the model in DistributedDataParallel and train what that returns, or all_reduce every "
    "gradient before each step and divide it by the number of ranks"
)
_SHARDED = (
    "for fully_shard was given a mesh of one rank on each, where there is nobody to reduce with"
)
_MEND_SHARDED = (
    "give fully_shard the mesh of all ranks that train one model: one of two axes, as "
    'mesh["replicate", "shard"], shards along the second and averages along the first, be either '
    "of one rank"
)
_OFTEN = 1.5
"""Parameters are taken so often at least, but for those of few elements: once may be the end."""


def _alone(job: Job) -> Iterator[Finding]:
    """Optimizers of all ranks whose gradients go nowhere though the ranks are meant to be replicas.

    They are where one DistributedSampler splits the data among all of them, or where all began with
    the parameters that one of them had broadcast; and where all take those of one now and then,
    what the others made of theirs is lost. Where they only began alike they may be folds of a
    cross-validation, and it is a remark.
    """
    by_optimizer: dict[tuple[int, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _ALONE):
        of = one.facts["optimizer"], tuple(one.facts["elements"])
        by_optimizer.setdefault(of, []).append(one)
    for ranks in by_optimizer.values():
        world = ranks[0].facts["world"]
        if world < 2:
            if ranks[0].facts["started"] > 1:
                yield _without_group(ranks[0])
                return
            continue
        if len({one.rank for one in ranks}) < world:
            continue
        if lost := _lost(ranks):
            yield lost
            return
        if all(one.facts.get("sharded") for one in ranks):
            yield _apart(FindingKind.DRIFT, ranks, _SHARDED, _MEND_SHARDED)
            return
        if why := _meant(ranks, world):
            yield _apart(FindingKind.DRIFT, ranks, f"though {why}")
            return
        if _alike(ranks):
            yield _apart(FindingKind.DATA, ranks, "and all began with the same parameters")
            return


def _apart(kind: FindingKind, ranks: Sequence[Noted], why: str, mend: str = _MEND) -> Finding:
    return finding_of(
        ranks,
        kind,
        remark=kind is FindingKind.DATA,
        what=f"each rank trains a model of its own: in {ranks[0].facts['steps']} steps of the "
        f"optimizer nothing as large as its gradients went between the ranks, {why}",
        mend=mend,
    )


def _alike(ranks: Sequence[Noted]) -> bool:
    """Whether they began alike and step alike, as no search over settings does."""
    first = ranks[0].facts
    return all(
        one.facts["begun"] == first["begun"] and one.facts["settings"] == first["settings"]
        for one in ranks
    )


def _lost(ranks: Sequence[Noted]) -> Finding | None:
    """That ranks take the parameters of one rank now and then, and with it lose what they made."""
    first = ranks[0].facts
    by_root = dict(first.get("taken", ()))
    if len(by_root) != 1 or min(by_root) < 0 or max(by_root.values()) < _OFTEN:
        return None
    ((root, times),) = by_root.items()
    others = ranks_named([one.rank for one in ranks if one.rank != root])
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=sorted(one.rank for one in ranks),
        places=[at for one in ranks for at in places_of(one.log, one.facts["taken_at"])],
        what=f"each rank trains by gradients of its own, and takes the parameters of rank {root} "
        f"{times:.0f} times in {first['steps']} steps of the optimizer: what {others} "
        f"{'has' if len(ranks) == 2 else 'have'} trained until then is lost, for nothing as large "
        "as gradients goes between the ranks",
        mend="average the gradients before each step, which DistributedDataParallel does, or "
        "all_reduce each of them and divide it by the number of ranks: a broadcast spreads what "
        "one rank has, and gathers nothing",
    )


def _without_group(one: Noted) -> Finding:
    """Several ranks were started and make no group: of a search over settings that is right."""
    return Finding(
        kind=FindingKind.DATA,
        remark=True,
        ranks=[one.rank],
        places=one.places,
        what=f"{one.facts['started']} ranks were started, and the script makes "
        f"{'a group of each alone' if one.facts['world'] else 'no group of them'}: each trains a "
        "model of its own",
        mend="call torch.distributed.init_process_group(), which takes rank and world size from "
        "the launcher, and wrap the model in DistributedDataParallel, or start one rank alone",
    )


def _meant(ranks: Sequence[Noted], world: int) -> str:
    """Why these ranks are taken for replicas; empty where nothing says so."""
    passes = [pass_among(one.log, world) for one in ranks]
    if all(passes) and len({one["size"] for one in passes}) == 1:
        where = ranks[0].log.sites.get(passes[0]["at"], "a DataLoader")
        return f"the DistributedSampler of the loop at {where} gives each a part of the data"
    if all(one.facts["given"] for one in ranks):
        return "its parameters were broadcast before the first of them"
    return ""


JUDGE = Judge(_alone)
