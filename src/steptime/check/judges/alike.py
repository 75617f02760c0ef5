"""Alike: shards of a layer that are the same on all ranks."""

from collections.abc import Iterator, Mapping, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import batches
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted, whole_calls
from steptime.check.words import ranks_named

_ALIKE, _BEGUN = "alike", "shards begun"
_MEND = (
    "seed each rank's shards apart, or make the whole weight on every rank and keep its own part"
)
_SAME_SHARDS = (
    "the shards of the layers before it began by one seed, so that all ranks together have no more "
    "features than one"
)
_SAME_WHOLE = (
    "each rank has the whole already, as what they have gathered before, and the sum counts it "
    "once for every rank"
)
_MEND_WHOLE = "sum up what each rank has a part of, and leave the sum out of what all have whole"
_SAME_PART = "these ranks compute on the same part of each sequence, and nobody on the others"
_MEND_PART = "give each rank a part of its own, as tokens.chunk(ranks, dim=1)[rank]"
_DOES = {"all_reduce": "sums up", "all_gather": "gathers", "send": "sends on"}
_LEAST = 3  # calls of a line: one may be a trial


def _alike(job: Job) -> Iterator[Finding]:
    """Shards that ranks have alike where they say which are shards, else by what comes of them."""
    found = list(_begun(job))
    yield from found or _activations(job)


def _begun(job: Job) -> Iterator[Finding]:
    """The optimizers of which a shard is before the first step as those of all its ranks are.

    A remark: on CPUs DTensor draws so, which a trial of what is to run on GPUs need not mind. Of
    what a script shards itself it is none.
    """
    by_number: dict[tuple[int, bool], dict[int, Noted]] = {}
    for one in noted(job, _BEGUN):
        of = one.facts["number"], one.facts.get("by_hand", False)
        by_number.setdefault(of, {})[one.rank] = one
    for (_, by_hand), of_rank in by_number.items():
        alike = [at for at in range(_fewest(of_rank)) if _is_same(of_rank, at)]
        if alike:
            first = next(iter(of_rank.values())).facts
            shape = " × ".join(map(str, first["shapes"][alike[0]]))
            drawn = (
                "each took the same part, or drew its own" if by_hand else "each rank drew its own"
            )
            yield Finding(
                kind=FindingKind.DRIFT if by_hand else FindingKind.DATA,
                remark=not by_hand,
                ranks=sorted(of_rank),
                places=[place for one in of_rank.values() for place in one.places],
                what=f"{len(alike)} of {len(first['hashes'])} sharded parameters begin with the "
                f"same shard on all their ranks, the first of them {shape}: {drawn} by one seed, "
                "and the parts of a weight are copies of one another",
                mend=_MEND,
            )
            return


def _fewest(of_rank: Mapping[int, Noted]) -> int:
    return min(len(one.facts["hashes"]) for one in of_rank.values())


def _is_same(of_rank: Mapping[int, Noted], at: int) -> bool:
    """Whether a parameter's shards are the same on all ranks of any of its replicas."""
    groups = {tuple(one.facts["ranks"][at]) for one in of_rank.values()}
    whole = [[of_rank[rank] for rank in group] for group in groups if set(group) <= set(of_rank)]
    hashes = [{one.facts["hashes"][at] for one in ranks} for ranks in whole]
    return any(len(one) == 1 and 0 not in one for one in hashes)


def _activations(job: Job) -> Iterator[Finding]:
    """The first line whose first call, of several, brings the same activations on every rank.

    Where they are summed up they stay the same; where each rank has its own gradient they part in
    the first step. Replicas that are given the same batches have the same ones, too: that is told
    as such.
    """
    if any(batches.JUDGE.judge(job)):
        return
    lines = list(whole_calls(job, _ALIKE))
    gathering = {
        among
        for _, among, whole in lines
        if whole and whole[0][0].facts["kind"] == "all_gather" and not _is_one(whole[0])
    }
    for site, among, whole in lines:
        if len(whole) < _LEAST:
            continue
        kind = whole[0][0].facts["kind"]
        # Positions are in the keys that a ring sends on, and not in the values behind them.
        first = whole if kind == "send" else whole[:1]
        if any(map(_is_one, first)):
            ranks = whole[0]
            what, mend = _SAME_SHARDS, _MEND
            if kind == "send":
                what, mend = _SAME_PART, _MEND_PART
            elif kind == "all_reduce" and among in gathering:
                what, mend = _SAME_WHOLE, _MEND_WHOLE
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                what=f"{site} {_DOES[kind]} activations that are the same on "
                f"{ranks_named(among)} at first: {what}",
                mend=mend,
            )
            return


def _is_one(ranks: Sequence[Noted]) -> bool:
    """Whether a call was brought the same on all of its ranks."""
    return len({one.facts["hash"] for one in ranks}) == 1


JUDGE = Judge(_alike)
