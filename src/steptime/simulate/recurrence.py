"""Priced steps: when every op of every rank runs, where each meeting takes a known time.

Compiled code, all in this file.
"""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.simulate.network.compiled import compiled
from steptime.simulate.queues import MEET, Queues

NONE = -1


class Prices(NamedTuple):
    """Who meets, as Matching has it, and what that takes.

    ``missing``: how many parts each meeting has; ``seconds``: what it takes; both of shape
    (meetings,).
    """

    missing: Longs
    parts_of: Longs
    meeting: Ints
    seconds: Floats


@compiled
def run(queues: Queues, prices: Prices, free: Floats, before: Floats, ends: Floats) -> Longs:
    """One step: fill in when each op instance ends, in seconds, shape (instances,).

    ``before``: when each ended in the step before. ``free``, shape (ranks, streams): when each
    stream is done with what was before; on return, when it is done with this step.

    A meeting starts when all its members have reached it and ends, for all, its seconds later. So
    each time is a maximum of others plus a duration, and the order in which streams are looked at
    does not matter: one goes on as far as it can, and is looked at again when the meeting it waits
    in has ended, or an op that it comes after.

    Returns how many ops each stream has done, shape (ranks, streams): fewer than it has where the
    program waits for itself.
    """
    ranks, streams = free.shape
    missing = prices.missing.copy()
    finish = np.zeros(missing.size)  # until all are there: when the last so far came
    waiting = np.full(missing.size, NONE)  # the first stream that waits in each meeting
    following = np.full(ranks * streams, NONE)  # the one after each stream that waits
    arrived = np.zeros(ranks * streams, np.bool_)
    done = np.zeros((ranks, streams), np.int64)
    stack = np.arange(ranks * streams)[::-1].copy()
    listed = np.ones(ranks * streams, np.bool_)
    top = ranks * streams
    ends[:] = np.nan
    while top:
        top -= 1
        one = stack[top]
        listed[one] = False
        rank, stream = one // streams, one % streams
        kind = queues.class_of[rank]
        base, of_class = queues.instances_of[rank], queues.ops_of[kind]
        size = queues.ops_of[kind + 1] - of_class
        first = queues.queue_of[kind, stream]
        length = queues.queue_of[kind, stream + 1] - first
        while done[rank, stream] < length:
            place = queues.queue[first + done[rank, stream]]
            op = of_class + place
            meeting = NONE
            if queues.code[op] == MEET:
                meeting = prices.meeting[prices.parts_of[rank] + queues.part[op]]
            end = 0.0
            if not arrived[one]:
                start = free[rank, stream]
                blocked = False
                for number in range(queues.after_of[op], queues.after_of[op + 1]):
                    other = queues.after[number]
                    ready = before[base + size + other] if other < 0 else ends[base + other]
                    if np.isnan(ready):
                        blocked = True
                        break
                    start = max(start, ready)
                if blocked:
                    break
                end = start + queues.seconds[op] / queues.speed[rank]
                if meeting != NONE:
                    arrived[one] = True
                    missing[meeting] -= 1
                    finish[meeting] = max(finish[meeting], end)
                    if missing[meeting]:
                        following[one], waiting[meeting] = waiting[meeting], one
                    else:
                        finish[meeting] += prices.seconds[meeting]
                        other = waiting[meeting]
                        while other != NONE:
                            if not listed[other]:
                                listed[other] = True
                                stack[top] = other
                                top += 1
                            other = following[other]
            if meeting != NONE:
                if missing[meeting]:
                    break
                arrived[one] = False
                end = finish[meeting]
            ends[base + place] = end
            free[rank, stream] = end
            done[rank, stream] += 1
            for number in range(queues.wakes_of[op], queues.wakes_of[op + 1]):
                other = rank * streams + queues.wakes[number]
                if not listed[other]:
                    listed[other] = True
                    stack[top] = other
                    top += 1
    return done
