"""Threads: ranks of a host that compute with more of them than it has cores."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.steps import step_length, steps_of
from steptime.check.words import ranks_named
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
        here = [one for one in noted(job, _THREADS) if one.log.host == host]
        cores = {core for one in here for core in one.facts["cores"]}
        threads = [one.facts["threads"] for one in here]
        of_host = max((one.facts.get("of_host", 0) for one in here), default=0)
        if len(cores) < min(len(here), of_host):
            yield _bound(here, sorted(cores), of_host)
        elif len(here) > 1 and max(threads) > 1 and sum(threads) >= _LEAST * len(cores):
            share = max(1, len(cores) // len(here))
            each = listed([str(one) for one in dict.fromkeys(threads)])
            crowded = [one.rank for one in here]
            yield Finding(
                kind=FindingKind.SLOW,
                remark=True,
                ranks=crowded,
                places=[place for one in here for place in one.places],
                what=f"{ranks_named(crowded)} compute with {each} threads each on {len(cores)} "
                f"core{'s' * (len(cores) != 1)} of one host: they take each other's, and a thread "
                "that waits for its part of a product keeps its core busy",
                mend=f"give each rank its share: OMP_NUM_THREADS={share} in the environment, or "
                f"torch.set_num_threads({share}) in the script, as torchrun does where nothing is "
                "set",
            )


def _bound(here: Sequence[Noted], cores: Sequence[int], of_host: int) -> Finding:
    """Ranks that are bound to fewer cores than they are, while others of the host are free."""
    ranks = [one.rank for one in here]
    which = f"core{'s' * (len(cores) != 1)} {listed([str(core) for core in cores])}"
    return Finding(
        kind=FindingKind.SLOW,
        ranks=ranks,
        places=[place for one in here for place in one.places],
        what=f"{ranks_named(ranks)} are all bound to {which}, of {of_host} that this host has: "
        "they compute in turns there",
        mend="give each rank cores of its own: see what binds them, as os.sched_setaffinity, "
        "taskset, mpirun --bind-to or srun --cpu-bind",
    )


JUDGE = Judge(_threads)
