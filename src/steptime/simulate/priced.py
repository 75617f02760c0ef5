"""Fidelity ``collective``: steps whose calls take known times, for very many ranks."""

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.program import Matching, Program
from steptime.simulate.deadlock import Deadlock
from steptime.simulate.equivalent_ranks import kinds_of_ranks
from steptime.simulate.queues import Queues
from steptime.simulate.recurrence import run
from steptime.simulate.simulation import Times


def priced(
    program: Program, queued: Queues, matching: Matching, seconds: Floats, steps: int
) -> Times:
    """The times of steps in which each instance of a call takes ``seconds``, shape (instances,).

    Raises UsageError that names ranks which wait for each other for ever.
    """
    kinds = kinds_of_ranks(queued, matching, seconds)
    ranks, rank_ops = kinds.queues.class_of.size, int(kinds.queues.rank_ops_of[-1])
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
    return Times(kinds.queues, kinds.of, ends, bounds)
