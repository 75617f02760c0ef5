"""Axes: groups that a script makes for replicas of a part of its model, and in which it calls none.

Ranks that are stages or have shards call one another for that, so that they look like one training.
"""

from collections.abc import Iterator, Sequence

from steptime.check.calls import SETUP
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, facts_of, noted
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog
from steptime.words import listed

_BEGINS = "begins"


def _axes(job: Job) -> Iterator[Finding]:
    """Groups of ranks that begin alike and train apart, each with ranks of other groups."""
    begins = {one.rank: one for one in noted(job, _BEGINS) if not one.facts["optimizer"]}
    logs = {log.rank: log for log in job.logs}
    made = dict.fromkeys(ranks for log in job.logs for ranks in _made(log))
    unused = [
        ranks
        for ranks in made
        if 1 < len(ranks) < len(logs)
        and begins.keys() >= set(ranks)
        and all(_calls_others(logs[rank], ranks) for rank in ranks)
        and _go_apart([begins[rank] for rank in ranks])
    ]
    if unused:
        found = [begins[rank] for rank in sorted({rank for ranks in unused for rank in ranks})]
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=[one.rank for one in found],
            places=[place for one in found for place in one.places],
            what=f"{listed([ranks_named(ranks) for ranks in unused])} have a group each, begin "
            "with the same parameters and step by gradients of their own: nothing is called in "
            f"{'that group' if len(unused) == 1 else 'those groups'}",
            mend="all_reduce the gradients among the ranks of the data axis before each step, as "
            "DistributedDataParallel does in its process_group, and fully_shard in a mesh of both "
            "axes",
        )


def _made(log: ProcessLog) -> Iterator[tuple[int, ...]]:
    for facts in facts_of(log, SETUP):
        if facts["kind"] == "new_group":
            yield tuple(facts["ranks"])


def _calls_others(log: ProcessLog, ranks: Sequence[int]) -> bool:
    """Whether a rank calls others, and never in the group of these ranks."""
    called = {int(number) for number in log.calls["group"]}
    groups = [tuple(group.ranks) for number, group in log.groups.items() if number in called]
    return any(len(of) > 1 for of in groups) and tuple(ranks) not in groups


def _go_apart(begins: Sequence[Noted]) -> bool:
    """Whether ranks begin with the same parameters, and have other gradients before a step."""
    first = begins[0].facts
    alike = all(
        one.facts["begun"] == first["begun"] and one.facts["elements"] == first["elements"]
        for one in begins
    )
    return alike and len({one.facts["gradients"] for one in begins}) > 1


JUDGE = Judge(_axes)
