"""One source: a rank that makes what all train on, while the others wait for their parts."""

from collections.abc import Iterator

import numpy as np

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import StepCall, places, steps_of, waited

_LEAST_GAIN, _LEAST_NS = 0.1, 2e6
_LEAST_BYTES = 1 << 12


def _one_source(job: Job) -> Iterator[Finding]:
    """Scatters of one rank to all in most steps, by what those wait that wait the least.

    Each could have made its part meanwhile: of what p ranks make that is all but 1 / p.
    """
    ranks = steps_of(job)
    found = [call for call in ranks[0].calls if _may(call)] if ranks else []
    roots = {call.peer for call in found}
    often = len({call.step for call in found}) >= 0.9 * ranks[0].number if ranks else False
    if not often or len(roots) > 1 or any(call.group_size < len(ranks) for call in found):
        return
    at = min(roots)
    lost = np.delete(waited(ranks, _may), at, axis=0).min(axis=0)
    length = float(np.mean([np.diff(one.bounds) for one in ranks]))
    gain = float(lost.mean()) * (1 - 1 / len(ranks)) / length
    if gain >= _LEAST_GAIN and np.median(lost) >= _LEAST_NS:
        source, where = ranks[at].log.rank, [*dict.fromkeys(call.site for call in found)]
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[source],
            places=places(ranks, where),
            what=f"rank {source} makes in each step what all ranks are given at "
            f"{' and '.join(map(str, where))}: the others wait for it for "
            f"{lost.mean() / length:.0%} of the time",
            mend="let each rank read and make its own part, as a DataLoader with a "
            "DistributedSampler does",
            gain=gain,
        )


def _may(call: StepCall) -> bool:
    return call.direct and call.kind == "scatter" and call.size >= _LEAST_BYTES


JUDGE = Judge(_one_source)
