"""Replicating: among which ranks a script itself reduces the gradients of all that it trains."""

from collections.abc import Iterator, Mapping
from typing import Any

from steptime.check.job import Job
from steptime.check.observed import Noted, noted

_BEFORE = "hashes before"


def with_ranks(job: Job, what: str) -> Iterator[tuple[Noted, tuple[int, ...]]]:
    """What was noted in each rank, and the ranks among which its gradients are averaged.

    Those by which it was noted, under DDP or ``fully_shard``, or else those among which its first
    optimizer's are reduced by hand; none where these are of a part of what it trains.
    """
    by_hand = {
        one.rank: tuple(one.facts["ranks"]) for one in noted(job, _BEFORE) if _is_of_all(one)
    }
    for one in noted(job, what):
        ranks = tuple(one.facts["ranks"]) or by_hand.get(one.rank, ())
        if len(ranks) > 1:
            yield one, ranks


def _is_of_all(one: Noted) -> bool:
    facts: Mapping[str, Any] = one.facts
    return not facts["model"] and not facts["optimizer"] and bool(facts.get("whole"))
