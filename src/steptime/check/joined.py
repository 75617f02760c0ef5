"""Processes that join a job, and the rank as which each does."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from steptime.check.calls import SET_UP, SETUP
from steptime.check.job import Job
from steptime.check.observed import facts_of
from steptime.record.read import ProcessLog

Joining: TypeAlias = Sequence[tuple[ProcessLog, int]]
"""Processes that have not joined yet, or failed to, with the place in the code where they do so."""


def open_setups(log: ProcessLog) -> list[Mapping[str, Any]]:
    """What a process noted of calls that set up groups and are not done, or have failed."""
    done = {facts["number"] for facts in facts_of(log, SET_UP)}
    return [facts for facts in facts_of(log, SETUP) if facts["number"] not in done]


def joining_as_one(job: Job) -> tuple[int, Joining] | None:
    """The first rank as which several processes join, and these; None: each has its own."""
    found: dict[int, list[tuple[ProcessLog, int]]] = {}
    for log in job.logs:
        for facts in open_setups(log):
            rank = facts.get("joins_as", -1)
            if rank >= 0:
                found.setdefault(rank, []).append((log, facts["at"]))
    several: Mapping[int, Joining] = {rank: of for rank, of in found.items() if len(of) > 1}
    return next(iter(several.items()), None)
