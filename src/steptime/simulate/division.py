"""Dividing each rank's step into phases, compiled for very many ranks.

Compiled code, all in this file.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.program import Matching
from steptime.simulate.network.compiled import in_place, inner
from steptime.simulate.network.tables import by_pointer
from steptime.simulate.queues import COMMUNICATE, Queues
from steptime.simulate.queues import WAIT as WAITS
from steptime.simulate.recurrence import Prices
from steptime.timeline import Phase
from steptime.timeline.waits import last_arrivals

COMPUTE = int(Phase.COMPUTE)
COMMUNICATION = int(Phase.COMMUNICATION)
UPDATE = int(Phase.UPDATE)
WAIT = int(Phase.WAIT)


@by_pointer
class Here(NamedTuple):
    """Where the streams of a rank are.

    Of each stream: the ``step`` and op ``at`` which it is, ``since`` and ``until`` when, since when
    its bytes are on their way (``moves``), and what it ``does``.
    """

    step: Longs
    at: Longs
    since: Floats
    until: Floats
    moves: Floats
    does: NDArray[np.uint8]


def starts_of(queues: Queues, ends: Floats, rank: int) -> Floats:
    """When the ops of a rank started, shape (steps, ops); ``ends`` of shape (steps, rank ops).

    An op starts when the one before it on its stream and all ops that it comes after have ended; a
    wait starts when its stream comes to it.
    """
    first, past = queues.ops_of[queues.class_of[rank] :][:2]
    starts = np.empty((len(ends), past - first))
    fill_starts(queues, ends, rank, starts)
    return starts


@in_place
def fill_starts(queues: Queues, ends: Floats, rank: int, starts: Floats) -> None:
    """Fill in what ``starts_of`` returns, in the first columns of ``starts``."""
    kind, base = queues.class_of[rank], queues.rank_ops_of[rank]
    first_op = queues.ops_of[kind]
    size = queues.ops_of[kind + 1] - first_op
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


def ready_times(queues: Queues, parts: Matching | Prices, ends: Floats) -> Floats:
    """When the last rank that it waited for came to each op, in seconds, 0 where it calls nothing.

    Of the shape of ``ends``, (steps, rank ops). ``parts``: which instance each part of a call is
    of.
    """
    calls = np.split(queues.code == COMMUNICATE, queues.ops_of[1:-1])
    called = np.flatnonzero(np.concatenate([calls[kind] for kind in queues.class_of.tolist()]))
    starts, ready = np.empty((len(ends), called.size)), np.zeros(ends.shape)
    fill_starts_of_calls(queues, ends, np.empty((len(ends), _most_ops(queues))), starts)
    for step, of_step in enumerate(ends):
        ready[step, called] = last_arrivals(parts.instance, starts[step], of_step[called])
    return ready


def _most_ops(queues: Queues) -> int:
    """How many ops the longest list has."""
    return int(np.diff(queues.ops_of).max(initial=0))


@in_place
def fill_starts_of_calls(queues: Queues, ends: Floats, scratch: Floats, starts: Floats) -> None:
    """Fill in when the ops that communicate started, rank by rank, shape (steps, those of all).

    ``scratch``: shape (steps, most ops of a rank).
    """
    column = 0
    for rank in range(len(queues.class_of)):
        kind = queues.class_of[rank]
        fill_starts(queues, ends, rank, scratch)
        first = queues.ops_of[kind]
        for op in range(first, queues.ops_of[kind + 1]):
            if queues.code[op] == COMMUNICATE:
                for step in range(len(ends)):
                    starts[step, column] = scratch[step, op - first]
                column += 1


@inner
def _counted_as(computing: bool, updating: bool, moving: bool, exposed: bool) -> int:
    """The column of ``divide`` that an instant counts in."""
    if computing:
        return 0
    if updating:
        return 2
    if moving:
        return 1
    return 4 if exposed else 3


def divide(
    queues: Queues,
    phase: NDArray[np.uint8],
    ready: Floats,
    ends: Floats,
    begin: Floats,
    finish: Floats,
) -> Floats:
    """Seconds of compute, transfer, update, other and waiting of a step, shape (ranks, 5).

    Divided as by ``phases_of_steps``, between ``begin`` and ``finish``, both of shape (ranks,).
    ``phase``: of each op, shape (ops,). ``ready`` and ``ends``: shape (steps, rank ops).
    """
    streams, totals = queues.queue_of.shape[1] - 1, np.zeros((begin.size, 5))
    here = Here(
        step=np.zeros(streams, np.int64),
        at=np.zeros(streams, np.int64),
        since=np.zeros(streams),
        until=np.zeros(streams),
        moves=np.zeros(streams),
        does=np.zeros(streams, np.uint8),
    )
    starts = np.empty((len(ends), _most_ops(queues)))
    _divide(queues, phase, ready, ends, begin, finish, here, starts, totals)
    return totals


@in_place
def _divide(
    queues: Queues,
    phase: NDArray[np.uint8],
    ready: Floats,
    ends: Floats,
    begin: Floats,
    finish: Floats,
    here: Here,
    starts: Floats,
    totals: Floats,
) -> None:
    """Add up ``totals``, going over the intervals of all streams of a rank side by side.

    ``starts``: room for when the ops of a rank started, shape (steps, most ops of a rank).
    """
    step, at, since, until = here.step, here.at, here.since, here.until
    moves, does = here.moves, here.does
    streams = len(step)
    for rank in range(begin.size):
        fill_starts(queues, ends, rank, starts)
        kind, base = queues.class_of[rank], queues.rank_ops_of[rank]
        for stream in range(streams):
            step[stream], at[stream], until[stream] = 0, -1, -np.inf
        now, last = begin[rank], finish[rank]
        while now < last:
            following = last
            computing = updating = communicating = moving = waiting = False
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
                    moves[stream] = max(since[stream], ready[step[stream], base + place])
                    does[stream] = phase[queues.ops_of[kind] + place]
                if since[stream] > now:
                    following = min(following, since[stream])
                else:
                    moved = moves[stream] <= now
                    following = min(following, until[stream] if moved else moves[stream])
                    moving |= does[stream] == COMMUNICATION and moved
                    computing |= does[stream] == COMPUTE
                    updating |= does[stream] == UPDATE
                    communicating |= does[stream] == COMMUNICATION
                    waiting |= does[stream] == WAIT
            exposed = communicating or waiting
            which = _counted_as(
                computing and not waiting, updating and not waiting, moving, exposed
            )
            totals[rank, which] += following - now
            now = following
