"""How much of a call is work of the cores, told by rounds of computing and a call.

What cores work for a call is done beside what other ranks compute, and delays that; in the rest of
the time none works for it, while threads wake one another. All groups that call at once show the
former, since a core that finds its caches full of others' data works longer. One that calls alone
shows the latter: else the cores work for others meanwhile.
"""

from collections.abc import Callable
from time import process_time, thread_time
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.clock import now, sleep
from steptime.measure.transport import BenchTransport
from steptime.replay.standin import StandIn

Call: TypeAlias = Callable[[], float]
"""A call of this rank, to its end: what its thread has worked by when it was under way, seconds."""

_ROUND_S = 0.5e-3
"""What a core needs for the computing of a round."""

_ROUNDS, _UNTIMED = 16, 2
"""Rounds that are timed together, and calls before them."""

_FIGURES = 4

_BEYOND = 1 << 18
"""Floats of which computing makes others between calls: 2 MiB in all, more than a core's caches."""


def measure_rounds(
    world: BenchTransport, call: Call | None, alone: Call | None, work: StandIn
) -> NDArray[np.float64]:
    """Rounds with a call by all groups at once, then by the first alone, the same on every rank.

    ``call``: this rank's, None where it is in no group; ``alone``: where it is in the first, and
    None elsewhere. Returns of both what a round takes, what of it is computed, what the rank's own
    thread works to post the call and all its threads in all, the mean over the ranks that call,
    shape (2, 4).
    """
    here = np.full((2, _FIGURES), np.nan)
    if call:
        here[0] = _rounds(call, work)
    longest_s = np.nanmax(world.gather(here[0])[:, 0])
    if alone is call is not None:  # the first group has all ranks
        here[1] = here[0]
    elif alone:
        here[1] = _rounds(alone, work)
    else:  # asleep, not looking for what others do
        sleep(_ROUNDS * longest_s)
    return np.asarray(np.nanmean(world.gather(here), axis=0))


def _rounds(call: Call, work: StandIn) -> NDArray[np.float64]:
    there, made = (np.ones(_BEYOND, np.float32) for _ in range(2))
    for _ in range(_UNTIMED):
        call()
    computed_s = posted_s = 0.0
    start = np.array([now(), 0.0, 0.0, process_time()])
    for _ in range(_ROUNDS):
        began = thread_time()
        work(_ROUND_S / 2, lambda: False, sleep)
        while thread_time() - began < _ROUND_S:  # as a layer does: the library finds its data gone
            np.add(there, 1, out=made)
        computed_s += thread_time() - began
        posted_s += call()
    end = np.array([now(), computed_s, posted_s, process_time()])
    return np.asarray((end - start) / _ROUNDS)


def work_and_rest(rounds: NDArray[np.float64], crowding: float) -> tuple[Floats, Floats, float]:
    """Of each call the seconds of a core that a rank needs, those in which none works, and posting.

    ``rounds``: of each as ``measure_rounds`` has them, the smallest call first, shape (calls, 2,
    4). ``crowding``: ranks for each core where one group calls alone, 1 at least.

    What the rank's own thread works until a call is under way is part of what the rank computes: no
    work of the call. That of the smallest is returned.
    """
    wall_s, computed_s, posted_s, all_s = np.moveaxis(rounds, -1, 0)  # each (calls, 2)
    work_s = np.maximum(all_s - computed_s - posted_s, 0.0)
    rest_s = np.maximum(wall_s - crowding * (computed_s + posted_s + work_s), 0.0)
    return work_s[:, 0], rest_s[:, 1], float(posted_s[0, 0])
