"""Sent names: weights that are received into, or gathered with, other parameters than their own."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named

_SENT_NAMES = "sent names"
_OFTEN = 2


def _sent_names(job: Job) -> Iterator[Finding]:
    """Groups whose ranks go through the same parameters in another order than one of them."""
    groups: dict[tuple[str, tuple[int, ...]], list[Noted]] = {}
    for one in noted(job, _SENT_NAMES):
        of = one.facts.get("kind", "broadcast"), tuple(one.facts["ranks"])
        groups.setdefault(of, []).append(one)
    for (kind, among), ranks in groups.items():
        for one in ranks if len(ranks) == len(among) else ():
            if crossed := _crossed(one, ranks):
                told = _sent if kind == "broadcast" else _gathered
                sender, *names = crossed
                both = sorted([sender, one], key=lambda each: each.rank)
                yield finding_of(both, FindingKind.DRIFT, *told(sender, one, among, *names))
                return


def _sent(
    sender: Noted, one: Noted, among: Sequence[int], sent: str, taken: str
) -> tuple[str, str]:
    others = ranks_named(sorted(set(among) - {sender.rank}))
    return (
        f"rank {sender.rank} sends its parameters one after the other to {others}, and rank "
        f"{one.rank} receives them in another order: {sent} into {taken}, so its copy of the "
        "model has the weights of other layers",
        "go through the parameters in one order on all ranks, as that of named_parameters(), or "
        "send the name with each",
    )


def _gathered(
    first: Noted, one: Noted, among: Sequence[int], of_first: str, of_one: str
) -> tuple[str, str]:
    return (
        f"{ranks_named(among)} gather their shards one after the other, and rank {one.rank} in "
        f"another order than rank {first.rank}: its shard of {of_one} goes with that of {of_first} "
        "there, so each has weights of which the parts are of several layers",
        "gather the shards of one layer at a time in one order on all ranks: what is fetched ahead "
        "is fetched ahead on every one of them",
    )


def _crossed(one: Noted, ranks: Sequence[Noted]) -> tuple[Noted, str, str] | None:
    """Whose parameter goes with another one of this rank in a call, where both have the same ones.

    Of what is gathered it is the first rank's. What is of parts has other names: those of a rank's
    experts count from 0 where all are known.
    """
    by_rank = {each.rank: each for each in ranks}
    of_root: dict[int, list[tuple[str, str]]] = {}
    for at, root in enumerate(one.facts["roots"]):
        sender = by_rank.get(root if root >= 0 else min(by_rank))
        if sender is None or sender is one or at >= len(sender.facts["names"]):
            continue
        sent, taken = sender.facts["names"][at], one.facts["names"][at]
        if sent and taken:
            of_root.setdefault(sender.rank, []).append((sent, taken))
    for root, pairs in of_root.items():
        apart = [(sent, taken) for sent, taken in pairs if sent != taken]
        names = {sent for sent, _ in pairs}
        if len(apart) >= _OFTEN and names == {taken for _, taken in pairs}:
            return by_rank[root], *apart[0]
    return None


JUDGE = Judge(_sent_names)
