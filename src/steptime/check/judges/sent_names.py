"""Sent names: weights that are received into other parameters than they are of."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named

_SENT_NAMES = "sent names"
_OFTEN = 2


def _sent_names(job: Job) -> Iterator[Finding]:
    """Groups whose ranks go through the same parameters in another order than who sends them."""
    groups: dict[tuple[int, ...], list[Noted]] = {}
    for one in noted(job, _SENT_NAMES):
        groups.setdefault(tuple(one.facts["ranks"]), []).append(one)
    for among, ranks in groups.items():
        for one in ranks if len(ranks) == len(among) else ():
            if crossed := _crossed(one, ranks):
                sender, sent, taken = crossed
                yield finding_of(
                    sorted([sender, one], key=lambda each: each.rank),
                    FindingKind.DRIFT,
                    f"rank {sender.rank} sends its parameters one after the other to "
                    f"{ranks_named(sorted(set(among) - {sender.rank}))}, and rank {one.rank} "
                    f"receives them in another order: {sent} into {taken}, so its copy of the "
                    "model has the weights of other layers",
                    "go through the parameters in one order on all ranks, as that of "
                    "named_parameters(), or send the name with each",
                )
                return


def _crossed(one: Noted, ranks: Sequence[Noted]) -> tuple[Noted, str, str] | None:
    """Who sends what this rank takes for another of its parameters, of which both have the same.

    What is of parts has other names: those of a rank's experts count from 0 where all are known.
    """
    by_rank = {each.rank: each for each in ranks}
    of_root: dict[int, list[tuple[str, str]]] = {}
    for at, root in enumerate(one.facts["roots"]):
        sender = by_rank.get(root)
        if sender is None or sender is one or at >= len(sender.facts["names"]):
            continue
        sent, taken = sender.facts["names"][at], one.facts["names"][at]
        if sent and taken:
            of_root.setdefault(root, []).append((sent, taken))
    for root, pairs in of_root.items():
        apart = [(sent, taken) for sent, taken in pairs if sent != taken]
        names = {sent for sent, _ in pairs}
        if len(apart) >= _OFTEN and names == {taken for _, taken in pairs}:
            return by_rank[root], *apart[0]
    return None


JUDGE = Judge(_sent_names)
