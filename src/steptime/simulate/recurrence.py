"""The times of all ops of every rank where each call takes a known time, by one recurrence."""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Flags, Floats, Ints, Longs
from steptime.simulate.network.engine import run_step
from steptime.simulate.queues import Queues

NONE = -1


class Prices(NamedTuple):
    """The parts of each instance of a call, as in Matching, and its duration.

    ``missing``: how many parts each instance has; ``seconds``: what it takes; both of shape
    (instances,).
    """

    missing: Longs
    parts_of: Longs
    instance: Ints
    seconds: Floats


class Calls(NamedTuple):
    """The progress of the instances of calls in a step.

    ``missing``: the members that have not reached each yet; ``finish``: when it ends or, until all
    are there, when the latest so far came; ``waiting``: the first stream that waits in it; all of
    shape (instances,). ``following``: the next stream after each waiting one, shape (streams of
    all,).
    """

    missing: Longs
    finish: Floats
    waiting: Longs
    following: Longs


class Todo(NamedTuple):
    """The streams of all ranks: those that have ``arrived`` in an instance, and those to look at.

    The latter are a ``stack`` and, of each stream, whether it is ``listed`` there; all of shape
    (streams of all,).
    """

    arrived: Flags
    stack: Longs
    listed: Flags


def run(queues: Queues, prices: Prices, free: Floats, before: Floats, ends: Floats) -> Longs:
    """One step: fill in when each rank op ``ends``, in seconds, shape (rank ops,).

    ``before``: the same of the step before. ``free``, shape (ranks, streams): when each
    stream is done with what was before; on return, when it is done with this step.

    Returns how many ops each stream has done, shape (ranks, streams): fewer than it has where the
    program waits for itself.
    """
    instances, streams = prices.missing.size, free.size
    calls = Calls(
        prices.missing.copy(),
        np.zeros(instances),
        np.full(instances, NONE),
        np.full(streams, NONE),
    )
    done = np.zeros(free.shape, np.int64)
    ends[:] = np.nan
    todo = Todo(
        np.zeros(streams, np.bool_), np.arange(streams)[::-1].copy(), np.ones(streams, np.bool_)
    )
    run_step(queues, prices, calls, todo, done, free, before, ends)
    return done
