"""The streams of all ranks at fidelity ``message``: their ops start and end as messages arrive.

Compiled code, all in this file. A *stream* here has one number among those of all ranks: that of
its rank times the streams of a rank, plus its own. An *instance* is that of Matching; a *task* is
what its ranks have the network do: messages of a collective, or one alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Floats, Ints, Longs
from steptime.simulate.network.compiled import in_place, inner
from steptime.simulate.network.engine import advance, append, enter, send
from steptime.simulate.network.state import DONE, NONE, Moves, Network
from steptime.simulate.network.tables import by_pointer
from steptime.simulate.queues import COMMUNICATE, Queues

UNREAD, FULL = 4, 5  # why run_streams returns, beside the reasons of the engine
GOES_ON = -1

STREAMS = 0  # the owner of the parts that stand for streams which compute, numbered as they are

TASK = np.dtype(
    [
        ("first", np.int64),  # of its rows among all moves; NONE: not read yet
        ("size", np.int64),  # rows
        ("members", np.int32),  # 0: a lone message
        ("spare", np.int32),  # an owner that may be used again, else NONE
        ("whole", np.bool_),  # no more moves follow those rows
    ],
    align=True,
)


@by_pointer
class Tasks(NamedTuple):
    """What each instance does.

    ``of``: its task, NONE where a group has one rank, shape (instances,); ``every``: all tasks,
    dtype TASK. The moves of those that were read are rows of one Moves.
    """

    of: Ints
    every: NDArray[Any]


@by_pointer
class Parts(NamedTuple):
    """Of Matching: where the parts of each rank begin, and the instance and place of each part."""

    parts_of: Longs
    instance: Ints
    place: Ints


@by_pointer
class Streams(NamedTuple):
    """Where the streams of all ranks are.

    Of each stream: how many ops it has ``done``, in all steps, whether it is ``busy`` with the
    next, and whether it is ``listed`` among those to look at, the first ``counts[0]`` of ``todo``.
    ``begun``, shape (steps, instances): of a collective its owner in the network, of a message the
    stream that reached it first; NONE before.
    """

    done: Longs
    busy: Flags
    listed: Flags
    todo: Longs
    counts: Longs
    begun: Longs


@inner
def look_at(streams: Streams, one: int) -> None:
    """List a stream among those to look at, unless it is there."""
    if not streams.listed[one]:
        streams.listed[one] = True
        streams.todo[streams.counts[0]] = one
        streams.counts[0] += 1


@inner
def ended(queues: Queues, rank: int, step: int, op: int, ends: Floats) -> bool:
    """Whether all ops that an op of a rank comes after have ended: of this step or the last."""
    for number in range(queues.after_of[op], queues.after_of[op + 1]):
        other = queues.after[number]
        if other >= 0:
            if np.isnan(ends[step, queues.rank_ops_of[rank] + other]):
                return False
        elif step and np.isnan(ends[step - 1, queues.rank_ops_of[rank + 1] + other]):
            return False
    return True


@inner
def queue_of(queues: Queues, one: int) -> tuple[int, int, int, int]:
    """The rank and class of a stream, where its queue begins, and how many ops that has."""
    count = queues.queue_of.shape[1] - 1
    rank, own = one // count, one % count
    kind = queues.class_of[rank]
    first = queues.queue_of[kind, own]
    return rank, kind, first, queues.queue_of[kind, own + 1] - first


@inner
def end(queues: Queues, streams: Streams, ends: Floats, one: int, now: float) -> None:
    """End the op that a stream runs, and look at it again, and at those with an op after it."""
    rank, kind, first, length = queue_of(queues, one)
    step, at = streams.done[one] // length, streams.done[one] % length
    place = queues.queue[first + at]
    ends[step, queues.rank_ops_of[rank] + place] = now
    streams.done[one] += 1
    streams.busy[one] = False
    look_at(streams, one)
    op = queues.ops_of[kind] + place
    for number in range(queues.wakes_of[op], queues.wakes_of[op + 1]):
        look_at(streams, rank * (queues.queue_of.shape[1] - 1) + queues.wakes[number])


@inner
def owner_for(net: Network, tasks: Tasks, number: int) -> int:
    """An owner for a task, with parts for its members; NONE where there is no room for one."""
    counts, task = net.counts[0], tasks.every[number]
    found = task.spare
    if found != NONE:
        task.spare = net.owners[found].following
    elif counts.owners == len(net.owners) or counts.parts + task.members > len(net.parts):
        return NONE
    else:
        found = counts.owners
        net.owners[found].base = counts.parts
        counts.owners += 1
        counts.parts += task.members
    owner = net.owners[found]
    owner.token, owner.task, owner.exhausted = found, number, task.whole
    owner.unfinished = owner.untold = task.members
    for part in range(owner.base, owner.base + task.members):
        here = net.parts[part]
        here.busy, here.at, here.tail, here.pending, here.owner = 0.0, NONE, NONE, 0, found
    return int(found)


@inner
def reach(
    net: Network,
    parts: Parts,
    tasks: Tasks,
    moves: Moves,
    streams: Streams,
    step: int,
    part: int,
    one: int,
) -> int:
    """Let a stream reach its part of an instance, and wait there: GOES_ON; else why it cannot."""
    counts, instance = net.counts[0], parts.instance[part]
    number = tasks.of[instance]
    task = tasks.every[number]
    begun = streams.begun[step, instance]
    if not task.members:
        if begun == NONE:
            streams.begun[step, instance] = one
            return GOES_ON
        if not counts.spare_flows:
            counts.wanted = number
            return FULL
        token = begun * streams.done.size + one
        send(net, token, counts.now, moves.rows[task.first], moves.paths[task.first])
        return GOES_ON
    if begun == NONE:
        counts.wanted = number
        if task.first == NONE:
            return UNREAD
        if counts.spare_flows < task.size:
            return FULL
        begun = owner_for(net, tasks, number)
        if begun == NONE:
            return FULL
        streams.begun[step, instance] = begun
        base = int(np.int64(net.owners[begun].base))
        append(net, base, moves, task.first, task.first + task.size)
    own = int(np.int64(net.owners[begun].base + parts.place[part]))
    net.parts[own].stream = one
    enter(net, own, counts.now)
    return GOES_ON


@inner
def start(
    net: Network,
    queues: Queues,
    parts: Parts,
    tasks: Tasks,
    moves: Moves,
    streams: Streams,
    ends: Floats,
    one: int,
) -> int:
    """Start the next op of a stream, if it can start: GOES_ON; else why Python must help first."""
    now = net.counts[0].now
    rank, kind, first, length = queue_of(queues, one)
    if streams.busy[one] or streams.done[one] == length * len(ends):
        return GOES_ON
    step, at = streams.done[one] // length, streams.done[one] % length
    op = queues.ops_of[kind] + queues.queue[first + at]
    if not ended(queues, rank, step, op, ends):
        return GOES_ON
    until = now
    if queues.code[op] == COMMUNICATE:
        part = parts.parts_of[rank] + queues.part[op]
        if tasks.of[parts.instance[part]] != NONE:
            reason = reach(net, parts, tasks, moves, streams, step, part, one)
            streams.busy[one] = reason == GOES_ON
            return int(reason)
    else:
        until = now + queues.seconds[op] / queues.speed[rank]
    if until > now:
        streams.busy[one] = True
        enter(net, one, until)
    else:
        end(queues, streams, ends, one, now)
    return GOES_ON


@inner
def end_all(net: Network, queues: Queues, tasks: Tasks, streams: Streams, ends: Floats) -> None:
    """End the ops of all streams for which the network has finished something."""
    counts = net.counts[0]
    for number in range(counts.ended):
        row = net.ended[number]
        if row.rank == NONE:  # a lone message, whose token tells both streams
            total = streams.done.size
            end(queues, streams, ends, row.token // total, counts.now)
            end(queues, streams, ends, row.token % total, counts.now)
            continue
        owner = net.owners[row.token]
        waits = net.parts[owner.base + row.rank].stream
        end(queues, streams, ends, int(np.int64(waits)), counts.now)
        if row.token != STREAMS:
            owner.untold -= 1
            if not owner.untold:
                task = tasks.every[owner.task]
                owner.following, task.spare = task.spare, row.token
    counts.ended = 0


@in_place
def run_streams(
    net: Network,
    queues: Queues,
    parts: Parts,
    tasks: Tasks,
    moves: Moves,
    streams: Streams,
    ends: Floats,
) -> int:
    """Run all steps, until no event is left; fill in when each rank op ``ends``.

    ``ends``: in seconds, shape (steps, rank ops), NaN at first. Returns why it stopped: a reason of
    ``advance``; UNREAD: the moves of the task ``wanted`` have not been read; FULL: there is no room
    for them, or for its members. What had to be done before is done when it is called again.
    """
    while True:
        while streams.counts[0]:
            streams.counts[0] -= 1
            one = streams.todo[streams.counts[0]]
            streams.listed[one] = False
            reason = start(net, queues, parts, tasks, moves, streams, ends, one)
            if reason != GOES_ON:
                look_at(streams, one)
                return int(reason)
        reason = advance(net, np.inf, True)
        if reason != DONE:
            return int(reason)
        end_all(net, queues, tasks, streams, ends)
