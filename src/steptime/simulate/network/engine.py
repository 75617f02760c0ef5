"""Engine: moves messages over links, from one event to the next."""

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.simulate.network.agenda import forget, put
from steptime.simulate.network.compiled import in_place, inner
from steptime.simulate.network.max_min import join, leave, share
from steptime.simulate.network.series import move, record
from steptime.simulate.network.state import (
    DONE,
    FLOWING,
    LATENT,
    NONE,
    QUIET,
    ROOM,
    ROUNDS,
    SAME,
    WAITING,
    Moves,
    Network,
    Record,
)


@inner
def proceed(net: Network, number: int) -> None:
    """Let a part enter its next round: messages whose other end has entered it too begin."""
    part, counts = net.parts[number], net.counts[0]
    end = part.at
    if end == NONE:
        owner = net.owners[part.owner]
        if owner.exhausted:
            owner.unfinished -= 1
            finish(net, owner.token, number - owner.base)
        else:
            counts.without_rounds = part.owner
            put(net, 2 * number + 1, counts.now)
        return
    now_in = net.flows[end >> 1].round
    pending = 0
    while end != NONE:
        flow = net.flows[end >> 1]
        if flow.round != now_in:
            break
        pending += 1
        flow.missing -= 1
        if not flow.missing:
            flow.sent = counts.now
            flow.state = LATENT
            put(net, 2 * (end >> 1), counts.now + flow.latency)
        end = flow.following[end & 1]
    part.at, part.pending = end, pending


@inner
def finish(net: Network, token: int, rank: int) -> None:
    """Record that a lone message, or a rank's part of a collective, is done."""
    counts = net.counts[0]
    row = net.ended[counts.ended]
    row.token, row.rank, row.at = token, rank, counts.now
    counts.ended += 1


@inner
def log(net: Network, number: int) -> None:
    """Keep a row of a message that has just arrived."""
    flow, counts = net.flows[number], net.counts[0]
    row = net.logged[counts.logged]
    row.token, row.src, row.dst = flow.token, flow.device[0], flow.device[1]
    row.src_device, row.dst_device = flow.device[0], flow.device[1]
    if flow.token == NONE:
        owner = net.owners[net.parts[flow.part[0]].owner]
        row.token = owner.token
        row.src, row.dst = flow.part[0] - owner.base, flow.part[1] - owner.base
    row.sent, row.received, row.bytes = flow.sent, counts.now, int(flow.nbytes)
    row.round = flow.round
    counts.logged += 1


@inner
def arrive(net: Network, number: int) -> None:
    """Handle the arrival of a message's last byte."""
    flow, counts = net.flows[number], net.counts[0]
    since = counts.now
    if flow.state == FLOWING:
        since = flow.since
        leave(net, number)
    record(net, net.paths[number], int(np.int64(flow.hops)), flow.left, since, counts.now)
    for hop in range(flow.hops):
        net.links[net.paths[number, hop]].nbytes += flow.nbytes
    lone = flow.token != NONE
    counts.messages += lone or flow.part[0] != flow.part[1]
    if counts.keep:
        log(net, number)
    flow.state = WAITING
    net.spare_flows[counts.spare_flows] = number
    counts.spare_flows += 1
    if lone:
        finish(net, flow.token, NONE)
        return
    net.parts[flow.part[1]].busy += flow.reduce
    for end in range(flow.released, 2):
        part = net.parts[flow.part[end]]
        part.pending -= 1
        if not part.pending:
            if part.busy > 0:
                put(net, 2 * flow.part[end] + 1, counts.now + part.busy)
                part.busy = 0.0
            else:
                proceed(net, int(np.int64(flow.part[end])))


@inner
def release(net: Network, number: int) -> None:
    """Let the sender of a message be done with it: its socket has taken what is left."""
    flow, now = net.flows[number], net.counts[0].now
    flow.released = 1
    part = net.parts[flow.part[0]]
    part.pending -= 1
    if not part.pending:
        put(net, 2 * flow.part[0] + 1, now + part.busy)
        part.busy = 0.0


@inner
def happen(net: Network, event: int) -> None:
    """Handle one event."""
    number = event >> 1
    if event & 1:
        proceed(net, number)
        return
    flow, now = net.flows[number], net.counts[0].now
    if flow.state == LATENT and flow.left > 0 and join(net, number):
        flow.state, flow.rate, flow.since = FLOWING, 0.0, now
        if flow.left <= flow.held:
            release(net, number)
    elif flow.state == FLOWING and flow.held > 0 and not flow.released:
        carried = flow.left - flow.held
        record(net, net.paths[number], int(np.int64(flow.hops)), carried, flow.since, now)
        flow.left, flow.since = flow.held, now
        put(net, 2 * number, now + flow.left / flow.rate)
        release(net, number)
    else:
        arrive(net, number)


@inner
def enter(net: Network, part: int, at: float) -> None:
    """Schedule when a part enters its first round."""
    net.events[2 * part + 1].instant = NONE
    put(net, 2 * part + 1, at)


@in_place
def run(net: Network, parts: Ints, at: Floats, until: float, stop: bool) -> int:
    """Let ``parts`` enter their first rounds, each ``at`` its time, and ``advance``."""
    for place in range(parts.size):
        enter(net, int(np.int64(parts[place])), at[place])
    return int(advance(net, until, stop))


@inner
def advance(net: Network, until: float, stop: bool) -> int:
    """Handle events until one of these reasons, which is returned.

    DONE: with ``stop``, something was done at the instant that is over. ROUNDS: the chains of the
    owner ``without_rounds`` need more messages. ROOM: the log may not have room for the next
    instant. QUIET: no event is left up to ``until``.
    """
    counts = net.counts[0]
    counts.without_rounds = NONE
    while True:
        if counts.changed and (not counts.heap or net.keys[0] > counts.now * (1 + SAME)):
            share(net)
        if counts.keep and len(net.logged) - counts.logged < len(net.flows):
            return ROOM
        if not counts.heap or net.keys[0] > counts.now * (1 + SAME):
            if stop and counts.ended:
                return DONE
            if not counts.heap or net.keys[0] > until:
                if until < np.inf:
                    move(net, until)
                return QUIET
            move(net, net.keys[0])
        number = net.heap[0]
        event = net.instants[number].first
        forget(net, number)
        while event != NONE:
            following = net.events[event].following
            net.events[event].instant = NONE
            happen(net, event)
            event = following
        if counts.without_rounds != NONE:
            return ROUNDS


@inner
def take(net: Network, move: Record, path: Ints) -> int:
    """Put a message into a spare slot without starting it; returns its number."""
    counts = net.counts[0]
    counts.spare_flows -= 1
    number = net.spare_flows[counts.spare_flows]
    flow = net.flows[number]
    flow.token, flow.nbytes, flow.left = NONE, move.nbytes, move.nbytes
    flow.rate, flow.latency, flow.reduce, flow.seen = 0.0, move.latency, move.reduce, 0
    flow.held, flow.weight, flow.released = move.held, move.weight, 0
    flow.state, flow.round, hops = WAITING, move.round, 0
    flow.device[0], flow.device[1] = move.device[0], move.device[1]
    while hops < len(path) and path[hops] != NONE:
        net.paths[number, hops] = path[hops]
        hops += 1
    flow.hops = hops
    net.events[2 * number].instant = NONE
    return int(number)


@inner
def send(net: Network, token: int, start: float, move: Record, path: Ints) -> None:
    """Schedule a lone message."""
    number = take(net, move, path)
    flow = net.flows[number]
    flow.token, flow.sent, flow.state = token, start, LATENT
    put(net, 2 * number, start + flow.latency)


@in_place
def dispatch(net: Network, tokens: Longs, start: Floats, moves: Moves) -> None:
    """Schedule lone messages, each at its time."""
    for place in range(tokens.size):
        token = int(np.int64(tokens[place]))
        send(net, token, start[place], moves.rows[place], moves.paths[place])


@in_place
def append(net: Network, base: int, moves: Moves, first: int, past: int) -> None:
    """Append messages of a collective, in order of rounds, to the chains of its parts.

    Those from the ``first`` to before ``past``. ``base``: the part of rank 0.
    """
    for place in range(first, past):
        number = take(net, moves.rows[place], moves.paths[place])
        flow = net.flows[number]
        flow.missing = 2
        for side in range(2):
            end = 2 * number + side
            flow.part[side] = base + moves.rows[place].rank[side]
            flow.following[side] = NONE
            part = net.parts[flow.part[side]]
            if part.at == NONE:
                part.at = end
            else:
                net.flows[part.tail >> 1].following[part.tail & 1] = end
            part.tail = end


@in_place
def tally(net: Network) -> None:
    """Add to the series what the flows in progress have carried so far."""
    now = net.counts[0].now
    for number in range(len(net.flows)):
        flow = net.flows[number]
        if flow.state == FLOWING and flow.rate > 0 and now > flow.since:
            carried = min(flow.rate * (now - flow.since), flow.left)
            record(net, net.paths[number], int(np.int64(flow.hops)), carried, flow.since, now)
            flow.left -= carried
            flow.since = now
