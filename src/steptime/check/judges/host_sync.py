"""Host synchronisation: barriers, and scalars that are summed up and read at once, in each step."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.steps import (
    LEAST_GAIN,
    RankSteps,
    StepCall,
    cost,
    places,
    step_length,
    steps_of,
)
from steptime.words import listed

_FOLLOWED = "followed"
_SCALAR_BYTES = 1024
_SCALARS_ALONE = 0.2
_LONG_NS = 5e6
"""A sum of the loss in each step is usual: without a barrier it is told where it costs so much of a
step that is long, for a toy's hardly is more than its calls."""

_NO_BARRIERS = "Leave barriers out: collectives wait for one another without them."
_SELDOM = (
    "What is summed up for a log, as the loss, can stay on the device and be summed up once in "
    "many steps."
)


def _host_sync(job: Job) -> Iterator[Finding]:
    """Calls that make every rank wait for the slowest one, in most steps, and move nothing."""
    ranks = steps_of(job)
    if not ranks:
        return
    # What a backward goes back through, as the sums of a softmax over shards, is for no log.
    others: set[object] = {one.facts["at"] for one in seen(job, _FOLLOWED, ("at",))}
    # A line that sums up gradients does so of small ones, too.
    others |= {call.site for call in ranks[0].calls if call.size > _SCALAR_BYTES}
    found = [call for call in ranks[0].calls if _may(call) and call.site not in others]
    sites = [site for site in dict.fromkeys(call.site for call in found) if _is_usual(ranks, site)]

    def chosen(call: StepCall) -> bool:
        return _may(call) and call.site in sites

    gain = cost(ranks, chosen) / step_length(ranks)
    of_sites = {call.kind for call in found if call.site in sites}
    barrier, sums = "barrier" in of_sites, bool(of_sites - {"barrier"})
    told = gain >= (LEAST_GAIN if barrier else _SCALARS_ALONE)
    if sites and told and (barrier or step_length(ranks) >= _LONG_NS):
        kinds = listed([*dict.fromkeys(call.kind for call in found if call.site in sites)])
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=[one.log.rank for one in ranks],
            places=places(ranks, sites),
            what=f"every step waits for all ranks in {kinds} at {listed([*map(str, sites)])}, "
            "which moves next to nothing",
            mend=" ".join([_NO_BARRIERS] * barrier + [_SELDOM] * sums),
            gain=gain,
        )


def _is_usual(ranks: list[RankSteps], site: object) -> bool:
    steps = {call.step for call in ranks[0].calls if _may(call) and call.site == site}
    return len(steps) > 0.9 * ranks[0].number - 1


def _may(call: StepCall) -> bool:
    of_gradients = call.backwards_left is not None or call.before_update or call.within_update
    if not call.direct or of_gradients:
        return False
    if call.kind == "barrier":
        return True
    sums = call.kind in ("all_reduce", "all_gather", "reduce") and call.size <= _SCALAR_BYTES
    return sums and not call.within_forward  # as the moments of a norm over all ranks


JUDGE = Judge(_host_sync)
