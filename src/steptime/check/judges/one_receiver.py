"""One receiver: a rank to which all others send, while its link is the one that is busy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import (
    LEAST_GAIN,
    RankSteps,
    StepCall,
    median_of_steps,
    places,
    step_length,
    steps_of,
)
from steptime.record.read import Site
from steptime.record.timeline import recorded_timeline

_LEAST_BYTES = 1 << 16


@dataclass(frozen=True)
class _Collected:
    """What a rank receives of all ``size`` members of its group, at most of the steps.

    By calls of ``kind``; ``nbytes`` a step, from each of the others. ``answers``: the calls by
    which it gives as much back to each of them, empty where it does not.
    """

    receiver: int
    kind: str
    size: int
    nbytes: int
    sites: Sequence[Site]
    answers: str


def _one_receiver(job: Job) -> Iterator[Finding]:
    """Gathers to one rank, or messages of all others to it, that carry more than a few numbers."""
    ranks = steps_of(job)
    found = _gathered(ranks) or _received(ranks)
    if found is None:
        return
    size = found.size
    gain = _taken(job, found, ranks[0].number) * _spared(found) / step_length(ranks)
    if gain >= LEAST_GAIN:
        apart = len({log.host for log in job.logs}) > 1
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[found.receiver],
            places=places(ranks, found.sites),
            what=f"rank {found.receiver} receives what all {size} ranks of its group have, "
            f"{found.nbytes * (size - 1)} bytes a step, at "
            f"{' and '.join(map(str, found.sites))}: its link carries {size - 1} times what each "
            "of the others does",
            mend="reduce among all ranks with all_reduce or reduce_scatter, which loads all links "
            "alike, or gather less and less often" + ("" if apart else _of_one_host(gain)),
            gain=gain if apart else None,
        )


def _gathered(ranks: Sequence[RankSteps]) -> _Collected | None:
    """Gathers to one and the same rank in most steps."""
    found = [call for one in ranks[:1] for call in one.calls if _counts(call, "gather")]
    if not found or not _mostly({call.step for call in found}, ranks[0]):
        return None
    size, roots = found[0].group_size, {call.peer for call in found}
    groups = [group for one in ranks for group in one.log.groups.values()]
    members = next(group.ranks for group in groups if len(group.ranks) == size)
    if len(roots) > 1 or not 0 <= found[0].peer < size:
        return None
    nbytes = sum(call.size for call in found) // ranks[0].number // size
    receiver = members[found[0].peer]
    one = next((one for one in ranks if one.log.rank == receiver), None)
    if one is None:  # its log is on another host, or lost
        return None
    back = [call for call in one.calls if call.kind == "broadcast" and call.peer in roots]
    answers = "broadcast" if _as_much(back, nbytes, one) else ""
    return _Collected(receiver, "gather", size, nbytes, _sites(found), answers)


def _received(ranks: Sequence[RankSteps]) -> _Collected | None:
    """Equal messages of all other ranks to one rank, one after the other, in most steps.

    It sends none between them: a stage in the middle of a pipeline, too, receives from all others
    where there are three, but passes on what it has received first. Where several ranks receive
    from all others, they exchange what they have, and no link carries more than another.
    """
    by_rank = {one: _collections(one) for one in ranks}
    receivers = [
        one
        for one, found in by_rank.items()
        if found and _mostly({calls[0].step for calls in found}, one)
    ]
    if len(receivers) != 1:
        return None
    (one,) = receivers
    found = [call for calls in by_rank[one] for call in calls]
    size = found[0].group_size
    nbytes = sum(call.size for call in found) // one.number // (size - 1)
    back = [call for call in one.calls if call.kind == "send"]
    answers = "send" if _as_much(back, nbytes * (size - 1), one) else ""
    return _Collected(one.log.rank, "recv", size, nbytes, _sites(found), answers)


def _collections(one: RankSteps) -> list[list[StepCall]]:
    """The runs of receives of a rank, without a send between, that take one of every other rank."""
    runs: list[list[StepCall]] = [[]]
    for call in one.calls:
        if call.kind == "send" or (runs[-1] and call.step != runs[-1][-1].step):
            runs.append([])
        if _counts(call, "recv"):
            runs[-1].append(call)
    return [run for run in runs if run and _takes_all(run)]


def _takes_all(run: Sequence[StepCall]) -> bool:
    others = run[0].group_size - 1
    each = [call.peer for call in run]
    from_any = set(each) == {-1}
    whole = len(run) % others == 0 if from_any else len(set(each)) == others
    return others > 1 and whole and len({call.size for call in run[:others]}) == 1


def _mostly(steps: set[int], one: RankSteps) -> bool:
    return len(steps) >= 0.9 * one.number - 1


def _as_much(back: Sequence[StepCall], nbytes: int, one: RankSteps) -> bool:
    return sum(call.size for call in back) >= 0.9 * nbytes * one.number > 0


def _spared(found: _Collected) -> float:
    """The part of the time that a reduction among all ranks does not take.

    Of p ranks with n bytes each, one receives (p - 1) n, and sends as much where it answers. In a
    ring all-reduce each sends 2 (p - 1) / p n, which goes both ways at once.
    """
    p = found.size
    return 1 - 1 / p if found.answers or p == 2 else 1 - 2 / p


def _of_one_host(gain: float) -> str:
    """What is said in place of a gain where ranks have no links of their own.

    Both ways move as many bytes in all, and a mended step of one host takes as long
    (benchmarks/gains.py).
    """
    return (
        f"; of ranks with a link each that takes {gain:.0%} off the step, within one host hardly "
        "anything"
    )


def _sites(calls: Sequence[StepCall]) -> list[Site]:
    return list(dict.fromkeys(call.site for call in calls))


def _counts(call: StepCall, kind: str) -> bool:
    return call.direct and call.kind == kind and call.size >= _LEAST_BYTES


def _taken(job: Job, found: _Collected, steps: int) -> float:
    """What these calls and their answers take a step, in nanoseconds: the median of the steps.

    From when the last of those concerned has come, not before: that one is late, whatever is
    called. Of a broadcast it is the rank that gets it last; the receiver's own calls otherwise,
    since senders are done when their sockets have taken what they send.
    """
    line = recorded_timeline(job.logs, "step")
    total = np.zeros(steps)
    for kind in filter(None, (found.kind, found.answers)):
        rows = line.intervals[line.intervals["name"] == line.names.index(kind)]
        rows = rows[rows["bytes"] >= _LEAST_BYTES]
        ranks = np.unique(rows["rank"]) if kind == "broadcast" else [found.receiver]
        total += np.max([_seconds(rows[rows["rank"] == rank], steps) for rank in ranks], axis=0)
    return 1e9 * median_of_steps(total.tolist())


def _seconds(rows: NDArray[np.void], steps: int) -> Floats:
    seconds = rows["end"] - np.maximum(rows["start"], rows["ready"])
    return np.bincount(rows["step"], seconds, minlength=steps).astype(float)


JUDGE = Judge(_one_receiver)
