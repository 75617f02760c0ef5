"""Dividing each rank's step into phases, compiled for very many ranks.

Compiled code, all in this file.
"""

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.simulate.network.compiled import compiled
from steptime.simulate.queues import WAIT as WAITS
from steptime.simulate.queues import Queues
from steptime.timeline import Phase

COMPUTE = int(Phase.COMPUTE)
COMMUNICATION = int(Phase.COMMUNICATION)
UPDATE = int(Phase.UPDATE)
WAIT = int(Phase.WAIT)


@compiled
def starts_of(queues: Queues, ends: Floats, rank: int) -> Floats:
    """When the ops of a rank started, shape (steps, ops); ``ends`` of shape (steps, rank ops).

    An op starts when the one before it on its stream and all ops that it comes after have ended; a
    wait starts when its stream comes to it.
    """
    kind, base = queues.class_of[rank], queues.rank_ops_of[rank]
    first_op = queues.ops_of[kind]
    size = queues.ops_of[kind + 1] - first_op
    starts = np.empty((len(ends), size))
    for stream in range(queues.queue_of.shape[1] - 1):
        free = 0.0
        for step in range(len(ends)):
            for at in range(queues.queue_of[kind, stream], queues.queue_of[kind, stream + 1]):
                place = queues.queue[at]
                op, start = first_op + place, free
                if queues.code[op] != WAITS:
                    for number in range(queues.after_of[op], queues.after_of[op + 1]):
                        other = queues.after[number]
                        if other >= 0:
                            start = max(start, ends[step, base + other])
                        elif step > 0:
                            start = max(start, ends[step - 1, base + size + other])
                starts[step, place] = start
                free = ends[step, base + place]
    return starts


@compiled
def divide(
    queues: Queues,
    phase: NDArray[np.uint8],
    ends: Floats,
    begin: Floats,
    finish: Floats,
) -> Floats:
    """Seconds of compute, exposed communication, update and other of a step, shape (ranks, 4).

    Divided as by ``phases_of_steps``, between ``begin`` and ``finish``, both of shape (ranks,).
    ``phase``: of each op, shape (ops,). ``ends``: shape (steps, rank ops).
    """
    ranks = begin.size
    totals = np.zeros((ranks, 4))
    streams = queues.queue_of.shape[1] - 1
    step, at = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    since, until = np.zeros(streams), np.zeros(streams)  # of the interval that each is in or before
    does = np.zeros(streams, np.uint8)
    for rank in range(ranks):
        starts = starts_of(queues, ends, rank)
        kind, base = queues.class_of[rank], queues.rank_ops_of[rank]
        step[:], at[:], until[:] = 0, -1, -np.inf
        now, last = begin[rank], finish[rank]
        while now < last:
            following = last
            computing = updating = communicating = waiting = False
            for stream in range(streams):
                while until[stream] <= now:
                    first = queues.queue_of[kind, stream]
                    at[stream] += 1
                    if first + at[stream] == queues.queue_of[kind, stream + 1]:
                        step[stream] += 1
                        at[stream] = 0
                    if step[stream] >= len(starts) or first == queues.queue_of[kind, stream + 1]:
                        since[stream] = until[stream] = np.inf
                        break
                    place = queues.queue[first + at[stream]]
                    since[stream] = starts[step[stream], place]
                    until[stream] = ends[step[stream], base + place]
                    does[stream] = phase[queues.ops_of[kind] + place]
                if since[stream] > now:
                    following = min(following, since[stream])
                else:
                    following = min(following, until[stream])
                    computing |= does[stream] == COMPUTE
                    updating |= does[stream] == UPDATE
                    communicating |= does[stream] == COMMUNICATION
                    waiting |= does[stream] == WAIT
            which = 3
            if computing and not waiting:
                which = 0
            elif updating and not waiting:
                which = 2
            elif communicating or waiting:
                which = 1
            totals[rank, which] += following - now
            now = following
    return totals
