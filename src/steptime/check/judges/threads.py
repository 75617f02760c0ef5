"""Threads: ranks of a host that compute with more of them than it has cores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
from steptime.check.steps import step_length, steps_of
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog
from steptime.words import listed

_THREADS = "threads"
_LEAST = 1.5
"""So many threads a core: with fewer, some ranks may be done while others compute."""
_LEAST_NS = 5e6
"""A step of a toy takes less, and computes little in threads."""


def _threads(job: Job) -> Iterator[Finding]:
    """Ranks that take each other's cores: a thread that waits for its part keeps one busy."""
    ranks = steps_of(job)
    if not ranks or step_length(ranks) < _LEAST_NS:
        return
    for host in dict.fromkeys(log.host for log in job.logs):
        here = [log for log in job.logs if log.host == host]
        noted = [(log, facts) for log in here for facts in facts_of(log, _THREADS)]
        cores = {core for _, facts in noted for core in facts["cores"]}
        threads = [facts["threads"] for _, facts in noted]
        of_host = max((facts.get("of_host", 0) for _, facts in noted), default=0)
        if len(cores) < min(len(noted), of_host):
            yield _bound(noted, sorted(cores), of_host)
        elif len(noted) > 1 and max(threads) > 1 and sum(threads) >= _LEAST * len(cores):
            share = max(1, len(cores) // len(noted))
            each = listed([str(one) for one in dict.fromkeys(threads)])
            crowded = [log.rank for log, _ in noted]
            yield Finding(
                kind=FindingKind.SLOW,
                remark=True,
                ranks=crowded,
                places=[place for log, facts in noted for place in places_of(log, facts["at"])],
                what=f"{ranks_named(crowded)} compute with {each} threads each on {len(cores)} "
                f"core{'s' * (len(cores) != 1)} of one host: they take each other's, and a thread "
                "that waits for its part of a product keeps its core busy",
                mend=f"give each rank its share: OMP_NUM_THREADS={share} in the environment, or "
                f"torch.set_num_threads({share}) in the script, as torchrun does where nothing is "
                "set",
            )


def _bound(
    noted: Sequence[tuple[ProcessLog, Mapping[str, Any]]], cores: Sequence[int], of_host: int
) -> Finding:
    """Ranks that are bound to fewer cores than they are, while others of the host are free."""
    ranks = [log.rank for log, _ in noted]
    which = f"core{'s' * (len(cores) != 1)} {listed([str(core) for core in cores])}"
    return Finding(
        kind=FindingKind.SLOW,
        ranks=ranks,
        places=[place for log, facts in noted for place in places_of(log, facts["at"])],
        what=f"{ranks_named(ranks)} are all bound to {which}, of {of_host} that this host has: "
        "they compute in turns there",
        mend="give each rank cores of its own: see what binds them, as os.sched_setaffinity, "
        "taskset, mpirun --bind-to or srun --cpu-bind",
    )


JUDGE = Judge(_threads)
