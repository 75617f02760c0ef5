"""Stalled: ranks that all do nothing, and none of them within a call.

They wait for the lock of a file, which a build of an extension (torch.utils.cpp_extension) or a
download keeps others out by, and which stays where its process was killed; for workers of a
DataLoader that stand still; or for whatever else is none of the job's calls.
"""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.straggler import LATE_S
from steptime.check.judging import Judge
from steptime.check.stacks import communicates, waits_for_loader, waits_for_lock
from steptime.check.words import at, do
from steptime.record.read import ProcessLog

_NOTHING_S = 4 * LATE_S
"""So long without a call a job is told of: it may mean to wait for a while."""

_LOCK = (
    "If no other job builds or downloads there now, remove the file: that of an extension is "
    "called lock, in its folder under TORCH_EXTENSIONS_DIR or ~/.cache/torch_extensions."
)
_LOADER = (
    "Its workers stand still: a lock, or threads as of OpenMP or a tokenizer, that were in use as "
    "they were forked stay so in them. Give it multiprocessing_context='forkserver' or 'spawn'; "
    "num_workers=0 shows whether it is that."
)
_OTHER = "See what each waits for there: a file, a queue, another process."


def _stalled(job: Job) -> Iterator[Finding]:
    """One finding where all ranks that live have done nothing for a while."""
    alive = sorted(rank for rank, one in job.standings.items() if not one.ended)
    stacks = [job.stacks.get(rank, "") for rank in alive]
    if not alive or not all(stacks) or not all(job.standings[rank].runs for rank in alive):
        return
    since_s = min(job.since_s(_last_ns(log)) for log in job.logs if log.rank in alive)
    places = [place for rank in alive if (place := job.standings[rank].place)]
    if since_s >= LATE_S and all(map(waits_for_lock, stacks)):
        all_of_them = "all " * (len(alive) > 1)
        what = (
            f"{do(alive, f'{all_of_them}waits')} for the lock of a file"
            f"{at(places[0]) if places else ''}, for {since_s:.0f} s, and no rank has it: "
            "another job has, or one that was killed has left it"
        )
        mend = _LOCK
    elif since_s >= _NOTHING_S and _do_nothing(job, alive):
        loader = all(map(waits_for_loader, stacks))
        where = ", ".join(f"rank {one.rank}{at(one)}" for one in places)
        what = (
            f"{do(alive, 'does')} nothing for {since_s:.0f} s{': ' * bool(where)}{where}. "
            f"{'None' if len(alive) > 1 else 'It'} is in {'a' if len(alive) > 1 else 'no'} call, "
            "and no processor is used there, nor by the processes that were started there"
            f"{', workers of a DataLoader' * loader}"
        )
        mend = _LOADER if loader else _OTHER
    else:
        return
    yield Finding(
        kind=FindingKind.STRAGGLER,
        ranks=alive,
        places=places,
        what=what,
        mend=mend,
        since_s=since_s,
    )


def _do_nothing(job: Job, ranks: Sequence[int]) -> bool:
    """Whether ranks use no processor, nor what they started, and none is in torch.distributed."""
    communicate = any(communicates(job.stacks[rank]) for rank in ranks)
    return job.resting.issuperset(ranks) and not communicate


def _last_ns(log: ProcessLog) -> int:
    """When a rank wrote something down last, by the wall clock."""
    return log.by_wall(max(log.last, log.clock_ns))


JUDGE = Judge(_stalled, while_running=True)
