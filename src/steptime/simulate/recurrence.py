"""The times of all ops of every rank where each call takes a known time, by one recurrence.

Compiled code, all in this file.
"""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Flags, Floats, Ints, Longs
from steptime.simulate.network.compiled import in_place, inner
from steptime.simulate.network.tables import by_pointer
from steptime.simulate.queues import COMMUNICATE, Queues

NONE = -1


@by_pointer
class Prices(NamedTuple):
    """The parts of each instance of a call, as in Matching, and its duration.

    ``missing``: how many parts each instance has; ``seconds``: what it takes; both of shape
    (instances,).
    """

    missing: Longs
    parts_of: Longs
    instance: Ints
    seconds: Floats


@by_pointer
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


@by_pointer
class Todo(NamedTuple):
    """The streams of all ranks: those that have ``arrived`` in an instance, and those to look at.

    The latter are a ``stack`` and, of each stream, whether it is ``listed`` there; all of shape
    (streams of all,).
    """

    arrived: Flags
    stack: Longs
    listed: Flags


@inner
def instance_of(queues: Queues, prices: Prices, rank: int, op: int) -> int:
    """The instance that a rank's op is a part of, NONE where it does not communicate."""
    if queues.code[op] != COMMUNICATE:
        return NONE
    return int(prices.instance[prices.parts_of[rank] + queues.part[op]])


@inner
def reach(calls: Calls, instance: int, stream: int, time: float) -> bool:
    """Let a stream reach an instance, and wait there if others are missing; else return True."""
    calls.missing[instance] -= 1
    calls.finish[instance] = max(calls.finish[instance], time)
    if calls.missing[instance]:
        calls.following[stream], calls.waiting[instance] = calls.waiting[instance], stream
        return False
    return True


@inner
def startable(
    queues: Queues, rank: int, op: int, free: float, before: Floats, ends: Floats
) -> float:
    """When an op of a rank can start on a stream that is ``free`` from then on.

    That is when all ops that it comes after have ended, in the step ``before`` or in this one; NaN
    if one has not yet.
    """
    start = free
    for number in range(queues.after_of[op], queues.after_of[op + 1]):
        other = queues.after[number]
        if other < 0:
            ready = before[queues.rank_ops_of[rank + 1] + other]
        else:
            ready = ends[queues.rank_ops_of[rank] + other]
        if np.isnan(ready):
            return np.nan
        start = max(start, ready)
    return start


@inner
def push(stack: Longs, listed: Flags, top: int, stream: int) -> int:
    """Push a stream onto the stack of those to look at, unless it is there; returns the new top."""
    if listed[stream]:
        return top
    stack[top], listed[stream] = stream, True
    return top + 1


@inner
def push_waiting(stack: Longs, listed: Flags, top: int, calls: Calls, instance: int) -> int:
    """Push all streams that wait in an instance onto the stack; returns the new top."""
    stream = calls.waiting[instance]
    while stream != NONE:
        top = push(stack, listed, top, stream)
        stream = calls.following[stream]
    return top


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
    _run(queues, prices, calls, todo, done, free, before, ends)
    return done


@in_place
def _run(
    queues: Queues,
    prices: Prices,
    calls: Calls,
    todo: Todo,
    done: Longs,
    free: Floats,
    before: Floats,
    ends: Floats,
) -> None:
    """Take every stream as far as it can go.

    An instance of a call starts when all its members have reached it and ends, for all, its seconds
    later. So each time is a maximum of others plus a duration, and the order in which streams are
    looked at does not matter: one goes on as far as it can, and is looked at again when the
    instance it waits in has ended, or an op that it comes after.
    """
    arrived, stack, listed = todo.arrived, todo.stack, todo.listed
    streams = free.shape[1]
    top = len(stack)
    while top:
        top -= 1
        one = stack[top]
        listed[one] = False
        rank, stream = one // streams, one % streams
        kind = queues.class_of[rank]
        base, of_class = queues.rank_ops_of[rank], queues.ops_of[kind]
        first = queues.queue_of[kind, stream]
        length = queues.queue_of[kind, stream + 1] - first
        while done[rank, stream] < length:
            place = queues.queue[first + done[rank, stream]]
            op = of_class + place
            instance = instance_of(queues, prices, rank, op)
            end = 0.0
            if not arrived[one]:
                start = startable(queues, rank, op, free[rank, stream], before, ends)
                if np.isnan(start):
                    break
                end = start + queues.seconds[op] / queues.speed[rank]
                if instance != NONE:
                    arrived[one] = True
                    if reach(calls, instance, one, end):
                        calls.finish[instance] += prices.seconds[instance]
                        top = push_waiting(stack, listed, top, calls, instance)
            if instance != NONE:
                if calls.missing[instance]:
                    break
                arrived[one] = False
                end = calls.finish[instance]
            ends[base + place] = end
            free[rank, stream] = end
            done[rank, stream] += 1
            for number in range(queues.wakes_of[op], queues.wakes_of[op + 1]):
                top = push(stack, listed, top, rank * streams + queues.wakes[number])
