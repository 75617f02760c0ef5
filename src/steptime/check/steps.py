"""The steps of a job as its slow judges see them: what each call of a step costs."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from statistics import median

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.check.calls import MESSAGES
from steptime.check.finding import CallSite, on_rank
from steptime.check.job import Job
from steptime.check.observed import facts_of
from steptime.record.bounds import step_bounds
from steptime.record.events import Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, Site
from steptime.record.waits import awaited

LEAST_GAIN = 0.05
"""The part of a step that a finding must cost to be told."""

_FEWEST_STEPS = 3
NOWHERE = Site("", 0, "")
"""The place of what happens at none of the script's lines."""

_FLAGS = 1 << 10  # bytes
_CALLED = "called"
_COLLECTING, _LARGE = ("gather", "reduce", "scatter"), 1 << 16


@dataclass(frozen=True)
class StepCall:
    """A call in a step: ``waited`` nanoseconds were spent waiting for it, ``size`` bytes it has.

    ``begin`` and ``end``: when it was issued and done, by the rank's clock.
    ``direct``: the script makes it itself, not DDP or FSDP for it; ``within_forward``: in that of a
    module, which may compute with what comes of it. ``by_activations``: PyTorch reduces activations
    in its group, as between tensor-parallel ranks, so that it may be one of those, too.
    ``backwards_left``: how many backwards of the step follow the one that it is in before an
    optimizer steps, None outside of any. ``before_update``: after the last backward of the step and
    before the optimizer steps; ``within_update``: while it does.
    """

    step: int
    begin: int
    end: int
    kind: str
    site: Site
    peer: int
    group_size: int
    size: int
    waited: int
    direct: bool
    within_forward: bool
    by_activations: bool
    backwards_left: int | None
    before_update: bool
    within_update: bool

    @property
    def of_replicas(self) -> bool:
        """Whether PyTorch makes it for the gradients or shards of a model, as DDP and FSDP do."""
        return not (self.direct or self.by_activations)


@dataclass(frozen=True, eq=False)
class RankSteps:
    """The steps of a rank, from bound to bound in nanoseconds of its clock."""

    log: ProcessLog
    bounds: Ints

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    @property
    def length(self) -> float:
        """The median length of a step, in nanoseconds."""
        return float(np.median(np.diff(self.bounds)))

    @cached_property
    def calls(self) -> list[StepCall]:
        """Its calls in order."""
        return list(_calls(self))

    def spans(self, kind: Kind) -> list[list[tuple[int, int, Site]]]:
        """From when to when a part of the step lasted, and where: for each step."""
        found: list[list[tuple[int, int, Site]]] = [[] for _ in range(self.number)]
        for event in self.log.events[self.log.events["kind"] == kind]:
            step = self.step_of(int(event["issued"]))
            if step is not None:
                one = int(event["issued"]), int(event["ended"]), self.site(int(event["site"]))
                found[step].append(one)
        return found

    def step_of(self, moment: int) -> int | None:
        """The step that a moment is in, None where it is in none."""
        step = int(np.searchsorted(self.bounds, moment, side="right")) - 1
        return step if 0 <= step < self.number else None

    def site(self, number: int) -> Site:
        """A place in the code by its number."""
        return self.log.sites.get(number, NOWHERE)


def places(ranks: Sequence[RankSteps], sites: Iterable[Site]) -> list[CallSite]:
    """Lines on all ranks, each once."""
    known = [site for site in dict.fromkeys(sites) if site.file]
    return [on_rank(one.log.rank, site) for site in known for one in ranks]


def steps_of(job: Job) -> list[RankSteps]:
    """The steps of every rank; none where the job has too few to judge by."""
    ranks = [RankSteps(log, step_bounds(log)) for log in job.logs]
    fewest = min((one.number for one in ranks), default=0)
    if fewest < _FEWEST_STEPS or len(ranks) < 2:
        return []
    return [RankSteps(one.log, one.bounds[: fewest + 1]) for one in ranks]


def work_alike(ranks: Sequence[RankSteps]) -> bool:
    """Whether no rank has a part of its own: a stage of a pipeline, or to collect of the others."""
    return not any(
        call.kind in MESSAGES or (call.kind in _COLLECTING and call.size >= _LARGE)
        for one in ranks
        for call in one.calls
    )


def step_length(ranks: Sequence[RankSteps]) -> float:
    """The median length of a step on the slowest rank, in nanoseconds."""
    return max(one.length for one in ranks)


def cost(ranks: Sequence[RankSteps], chosen: Callable[[StepCall], bool]) -> float:
    """What the chosen calls of a step take, in nanoseconds: the median of the steps.

    They count as long as the rank waited for them that waited the least in this step: the others
    waited for that rank, too, which they would have done at the next call.
    """
    return median_of_steps(waited(ranks, chosen).min(axis=0).tolist())


def spent_in_rows(ranks: Sequence[RankSteps], chosen: Callable[[StepCall], bool]) -> float:
    """What rows of chosen calls take in a step, in nanoseconds, with what lies between two of them.

    A row ends where another call is made. As of ``cost`` the rank counts that spends the least; the
    median of the steps.
    """
    found = np.zeros((len(ranks), ranks[0].number))
    for row, one in enumerate(ranks):
        for is_chosen, calls in groupby(one.calls, key=lambda call: (chosen(call), call.step)):
            of_row = list(calls)
            if is_chosen[0]:
                begin, end = of_row[0].begin, max(call.end for call in of_row)
                found[row, is_chosen[1]] += max(0, end - begin)
    return median_of_steps(found.min(axis=0).tolist())


def waited(
    ranks: Sequence[RankSteps], chosen: Callable[[StepCall], bool] = lambda _: True
) -> Floats:
    """How long each rank waits for the chosen calls of each step, ns, shape (ranks, steps)."""
    found = np.zeros((len(ranks), ranks[0].number))
    for row, one in enumerate(ranks):
        for call in filter(chosen, one.calls):
            found[row, call.step] += call.waited
    return found


def lost_beside(ranks: Sequence[RankSteps], chosen: Callable[[StepCall], bool]) -> float:
    """What the backwards of a step lose to the chosen calls beside them, in nanoseconds.

    Of the time from the first of these calls to the end of the last, that in which the thread of
    the backward did not run: it waited for them, or what carries them had its core. Of a GPU's
    nothing is known. The rank counts that loses the least in a step; the median of the steps.
    """
    lost = np.zeros((len(ranks), ranks[0].number))
    for row, one in enumerate(ranks):
        calls = [call for call in one.calls if chosen(call)]
        for begin, end, ran in backwards(one):
            beside = [call for call in calls if begin <= call.begin < end]
            if beside and ran:
                there = min(end, max(call.end for call in beside)) - beside[0].begin
                lost[row, beside[0].step] += min(there, end - begin - ran)
    return median_of_steps(lost.min(axis=0).tolist())


def backwards(steps: RankSteps) -> Iterator[tuple[int, int, int]]:
    """From when to when each lasted, and how long its thread ran: 0 where that is not known."""
    events = steps.log.events
    for event in events[events["kind"] == Kind.BACKWARD]:
        ran = 0 if len(steps.log.marks) else int(event["bytes"])
        yield int(event["issued"]), int(event["ended"]), ran


def median_of_steps(values: Sequence[float]) -> float:
    """The median of what each step takes."""
    return float(median(values))


def _calls(steps: RankSteps) -> Iterator[StepCall]:
    log = steps.log
    waits = dict.fromkeys(range(len(log.calls)), 0)
    for wait in awaited(log):
        waits[wait.calls[-1]] += wait.end - wait.begin
    direct = _direct(log)
    backwards, optimizers = steps.spans(Kind.BACKWARD), steps.spans(Kind.OPTIMIZER)
    of_activations = _reducing_forward(steps, direct, [*backwards, *optimizers])
    for row, call in enumerate(log.calls):
        issued = int(call["issued"])
        step = steps.step_of(issued)
        if step is None:
            continue
        kind, number = OPERATIONS[call["operation"]].kind, int(call["site"])
        group = log.groups[int(call["group"])]
        done = max((end for _, end, _ in backwards[step]), default=issued)
        begun = max((begin for begin, _, _ in optimizers[step]), default=issued)
        yield StepCall(
            step=step,
            begin=issued,
            end=int(call["ended"]),
            kind=kind,
            site=steps.site(number),
            peer=int(call["peer"]),
            group_size=len(group.ranks),
            size=int(call["bytes"]),
            waited=waits[row],
            direct=(kind, number) in direct,
            within_forward=direct.get((kind, number), False),
            by_activations=int(call["group"]) in of_activations,
            backwards_left=_left(backwards[step], optimizers[step], issued),
            before_update=done <= issued < begun,
            within_update=any(begin <= issued < end for begin, end, _ in optimizers[step]),
        )


def _reducing_forward(
    steps: RankSteps,
    direct: Mapping[tuple[str, int], bool],
    others: Sequence[Sequence[tuple[int, int, Site]]],
) -> set[int]:
    """The groups in which PyTorch, for the script, reduces more than flags and norms in forwards.

    ``others``: what is no forward, the backwards and the updates. DDP and FSDP reduce in those.
    """
    spans = sorted((begin, end) for of_step in others for begin, end, _ in of_step)
    begins = [begin for begin, _ in spans]
    ends = [*accumulate((end for _, end in spans), max)]
    found = set()
    for call in steps.log.calls:
        kind, issued = OPERATIONS[call["operation"]].kind, int(call["issued"])
        reduces = kind in ("all_reduce", "reduce_scatter") and int(call["bytes"]) > _FLAGS
        if (
            reduces
            and (kind, int(call["site"])) not in direct
            and steps.step_of(issued) is not None
        ):
            before = bisect_right(begins, issued) - 1
            if before < 0 or issued >= ends[before]:
                found.add(int(call["group"]))
    return found


def _left(
    backwards: Sequence[tuple[int, int, Site]],
    updates: Sequence[tuple[int, int, Site]],
    moment: int,
) -> int | None:
    """How many backwards follow the one of a moment before an optimizer takes what they made."""
    for number, (begin, end, _) in enumerate(backwards):
        if begin <= moment < end:
            taken = min((one for one, *_ in updates if one >= end), default=None)
            following = [one for one, *_ in backwards[number + 1 :]]
            return sum(taken is None or one < taken for one in following)
    return None


def _direct(log: ProcessLog) -> dict[tuple[str, int], bool]:
    """The kinds and places of calls that the script makes itself, and whether within a forward.

    None where nobody observed.
    """
    return {
        (str(facts["call"]), int(facts["at"])): bool(facts.get("within_forward"))
        for facts in facts_of(log, _CALLED)
    }
