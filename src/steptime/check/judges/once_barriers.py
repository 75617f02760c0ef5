"""Once barriers: a barrier made of a store whose key is the same in each round."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import do

_ONCE_BARRIER = "once barrier"


def _once_barriers(job: Job) -> Iterator[Finding]:
    """Ranks that count themselves and wait for a key which the first round has set already.

    The last that came has set it, and not who made something ready, for which all may wait again.
    """
    by_key: dict[str, list[Noted]] = {}
    for one in noted(job, _ONCE_BARRIER):
        by_key.setdefault(one.facts["key"], []).append(one)
    for key, ranks in by_key.items():
        found = [one for one in ranks if one.facts["stays"]]
        if found and any(one.facts["by_last"] for one in ranks):
            who = do(sorted(one.rank for one in found), "waits")
            yield finding_of(
                found,
                FindingKind.RACE,
                f"{who} for the key {key!r} of a store in round after round, and it is set since "
                "the first: it is a barrier once, and lets all through at once from then on",
                "give the key a number that counts the rounds, or delete it once all are through; "
                "dist.barrier() is one as often as it is called",
            )


JUDGE = Judge(_once_barriers)
