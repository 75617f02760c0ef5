"""Dividing each rank's step into phases, for very many ranks (in C: division.c)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.program import Matching
from steptime.simulate.network.engine import divide as divide_into
from steptime.simulate.network.engine import fill_starts, fill_starts_of_calls
from steptime.simulate.queues import COMMUNICATE, Queues
from steptime.simulate.recurrence import Prices
from steptime.timeline.waits import last_arrivals


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
    divide_into(queues, phase, ready, ends, begin, finish, here, starts, totals)
    return totals
