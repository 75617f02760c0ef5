"""Fidelity ``collective``: steps whose calls take known times, for very many ranks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.host_memory import require_memory
from steptime.program import PIPELINE, Matching, Program
from steptime.simulate.deadlock import Deadlock
from steptime.simulate.division import divide, ready_times
from steptime.simulate.equivalent_ranks import EquivalentRanks, kinds_of_ranks
from steptime.simulate.queues import Queues
from steptime.simulate.recurrence import run
from steptime.simulate.simulation import Times, phases_of

_TIMES_BYTES = 32  # of each op of each kind of ranks and step: when it starts, is ready and ends

_FEW_BYTES = 1 << 26


def nothing(matching: Matching) -> tuple[Floats, ...]:
    """The seconds of calls that take no time."""
    return tuple(np.zeros(len(made.groups)) for made in matching.callers)


def priced(
    program: Program, queued: Queues, matching: Matching, seconds: Sequence[Floats], steps: int
) -> Times:
    """The times of steps in which calls take ``seconds``: of each, shape (groups that make it,).

    Raises UsageError that names ranks which wait for each other for ever.
    """
    kinds, ends, bounds = timed(program, queued, matching, seconds, steps)
    ready = ready_times(kinds.queues, kinds.prices, ends)
    return Times(kinds.queues, kinds.of, ready, ends, bounds)


def timed(
    program: Program, queued: Queues, matching: Matching, seconds: Sequence[Floats], steps: int
) -> tuple[EquivalentRanks, Floats, Floats]:
    """As ``priced``: the kinds of ranks, and of Times ``ends`` and ``bounds``."""
    kinds = kinds_of_ranks(queued, matching, seconds)
    ranks, rank_ops = kinds.queues.class_of.size, int(kinds.queues.rank_ops_of[-1])
    needed = rank_ops * steps * _TIMES_BYTES
    if needed > _FEW_BYTES:  # to ask how much is free takes longer than a small step
        require_memory(
            needed,
            f"{program.name}, whose ranks are of {ranks:,} kinds, {rank_ops:,} ops in all,",
            "ask for fewer ranks or steps",
        )
    ends = np.empty((steps, rank_ops))
    bounds = np.zeros((steps + 1, ranks))
    free = np.zeros((ranks, queued.queue_of.shape[1] - 1))
    before = np.zeros(rank_ops)
    for step in range(steps):
        done = run(kinds.queues, kinds.prices, free, before, ends[step])
        bounds[step + 1] = free[:, 0]
        before = ends[step]
        if np.isnan(before).any():
            every = [slice(*kinds.queues.rank_ops_of[k : k + 2]) for k in kinds.of.tolist()]
            never = np.isnan(np.concatenate([before[own] for own in every]))
            raise UsageError(Deadlock(program, queued, matching, done[kinds.of], never).reason())
    return kinds, ends, bounds


class Ideal(NamedTuple):
    """A step on a network that costs nothing, the second of two, by then in the steady state.

    ``step_s``: what it takes, in seconds. ``bubble``: the bubble of a pipeline's own schedule, as a
    part of what its busiest rank works: what no rank waits for because another works longer. It is
    0 where the program has no axis PIPELINE of two stages or more.
    """

    step_s: float
    bubble: float


def ideal_step(program: Program, queued: Queues, matching: Matching) -> Ideal:
    """The step of ``program`` where calls take no time.

    Raises UsageError that names ranks which wait for each other for ever.
    """
    times = priced(program, queued, matching, nothing(matching), 2)
    begin, end = times.bounds[-2:]
    step_s = float((end - begin).max())
    totals = divide(times.queues, phases_of(program), times.ready, times.ends, begin, end)
    work = float((totals[:, 0] + totals[:, 2]).max())
    piped = program.axes.get(PIPELINE, 1) > 1 and work > 0
    return Ideal(step_s, step_s / work - 1 if piped else 0.0)
