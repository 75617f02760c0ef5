"""Processes that join a job, and the rank as which each does."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from steptime.check.calls import SET_UP, SETUP
from steptime.check.job import Job
from steptime.check.observed import facts_of
from steptime.record.read import ProcessLog

Joining: TypeAlias = Sequence[tuple[ProcessLog, int]]
"""Processes that have not joined yet, or failed to, with the place in the code where they do so."""


def joining_as_one(job: Job) -> tuple[int, Joining] | None:
    """The first rank as which several processes join, and these; None: each has its own."""
    found: dict[int, list[tuple[ProcessLog, int]]] = {}
    for log in job.logs:
        joined = {facts["number"] for facts in facts_of(log, SET_UP)}
        for facts in facts_of(log, SETUP):
            rank = facts.get("joins_as", -1)
            if facts["number"] not in joined and rank >= 0:
                found.setdefault(rank, []).append((log, facts["at"]))
    several: Mapping[int, Joining] = {rank: of for rank, of in found.items() if len(of) > 1}
    return next(iter(several.items()), None)
