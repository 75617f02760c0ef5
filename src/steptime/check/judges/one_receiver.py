"""One receiver: a rank to which all others send, while its link is the one that is busy."""

from collections.abc import Iterator

import numpy as np

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
from steptime.record.timeline import recorded_timeline

_KIND = "gather"
_LEAST_BYTES = 1 << 16


def _one_receiver(job: Job) -> Iterator[Finding]:
    """Gathers to one rank, in most steps, that carry more than a few numbers."""
    ranks = steps_of(job)
    found = [call for one in ranks[:1] for call in one.calls if _may(call)]
    if not found or len({call.step for call in found}) < 0.9 * ranks[0].number - 1:
        return
    roots, receivers = {call.peer for call in found}, _receivers(ranks, found[0])
    if len(roots) > 1 or not receivers:
        return
    size = found[0].group_size
    taken = _taken(job, receivers[0], ranks[0].number)
    gain = taken * (1 - 2 / size if size > 2 else 1 / 2) / step_length(ranks)
    if gain >= LEAST_GAIN:
        sites = list(dict.fromkeys(call.site for call in found))
        step = sum(call.size for call in found) // ranks[0].number
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=receivers,
            places=places(ranks, sites),
            what=f"rank {found[0].peer} of its group receives what all {size} ranks have, "
            f"{step * (size - 1) // size} bytes a step, at {' and '.join(map(str, sites))}: its "
            f"link carries {size - 1} times what each of the others does",
            mend="reduce among all ranks with all_reduce or reduce_scatter, which loads all links "
            "alike, or gather less and less often",
            gain=gain,
        )


def _taken(job: Job, receiver: int, steps: int) -> float:
    """What the gathers of a step take their receiver, in nanoseconds: the median of the steps.

    From when the last sender has come, not before: that one is late, whatever is called. Senders
    themselves are done when their sockets have taken what they send.
    """
    line = recorded_timeline(job.logs, "step")
    rows = line.intervals[line.intervals["rank"] == receiver]
    rows = rows[(rows["name"] == line.names.index(_KIND)) & (rows["bytes"] >= _LEAST_BYTES)]
    seconds = rows["end"] - np.maximum(rows["start"], rows["ready"])
    return 1e9 * median_of_steps(np.bincount(rows["step"], seconds, minlength=steps).tolist())


def _receivers(ranks: list[RankSteps], call: StepCall) -> list[int]:
    groups = [one.log.groups for one in ranks]
    members = next(g.ranks for of in groups for g in of.values() if len(g.ranks) == call.group_size)
    return [members[call.peer]] if 0 <= call.peer < len(members) else []


def _may(call: StepCall) -> bool:
    return call.direct and call.kind == _KIND and call.size >= _LEAST_BYTES


JUDGE = Judge(_one_receiver)
