"""The network model once more, as plain as can be: the rates of all messages at every event."""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from steptime.collectives.execute import slot_offsets
from steptime.simulate.network.moves import weights

SAME = 1e-12


def max_min(paths, bandwidth, weights=None):
    """The fair rates of messages on sets of links: fill all by weight until a link is full."""
    weights = weights or [1.0] * len(paths)
    rates = [0.0] * len(paths)
    growing = {i for i, path in enumerate(paths) if any(np.isfinite(bandwidth[k]) for k in path)}
    for i in set(range(len(paths))) - growing:
        rates[i] = inf
    while growing:
        left = {}
        for link in {k for i in growing for k in paths[i] if np.isfinite(bandwidth[k])}:
            there = [i for i, path in enumerate(paths) if link in path]
            used = sum(rates[i] for i in there)
            left[link] = (bandwidth[link] - used) / sum(weights[i] for i in growing & {*there})
        more = max(min(left.values()), 0.0)
        full = {link for link, room in left.items() if room <= more + 1e-12 * bandwidth[link]}
        for i in growing:
            rates[i] += more * weights[i]
        growing = {i for i in growing if not full.intersection(paths[i])}
    return rates


@dataclass(eq=False)
class Message:
    path: list[int]
    latency: float
    left: float
    ready: float = inf  # when its latency is over
    reduce: float = 0.0
    missing: int = 2
    ranks: tuple = ()
    done: float = inf
    weight: float = 1.0
    held: float = 0.0  # bytes: when no more are left its sender is done
    released: bool = False


@dataclass(eq=False)
class Rank:
    """A rank in a collective: its rounds as lists of messages, each end once."""

    enters: float
    rounds: list[list[Message]] = field(default_factory=list)
    pending: int = 0
    reduce: float = 0.0
    done: float = inf


def message(cluster, src, dst, nbytes, round_number=-1):
    path = [int(k) for k in cluster.paths([src], [dst])[0] if k >= 0]
    one = Message(path, sum(cluster.links.latency[k] for k in path), float(nbytes))
    if cluster.host_of[src] != cluster.host_of[dst]:
        ends, number = np.array([[src], [dst]], np.int32), np.array([round_number], np.int32)
        one.weight = float(weights(cluster.unfairness, ends, number)[0])
    return one


def ranks_of(cluster, schedule, devices, nbytes, enters):
    """A collective's ranks, with the messages of their rounds."""
    offsets = slot_offsets(schedule, nbytes)
    reduction = cluster.device.reduction
    ranks = [Rank(at) for at in enters]
    for number, transfers in enumerate(schedule.rounds()):
        sizes = {}
        for row in transfers:
            src, dst, reduces = int(row["src"]), int(row["dst"]), bool(row["reduce"])
            size = offsets[row["first"] + row["count"]] - offsets[row["first"]]
            if src != dst or (reduces and reduction < inf):
                one = sizes.setdefault((src, dst), [0, 0])
                one[0] += size
                one[1] += size * reduces
        own = [[] for _ in ranks]
        for (src, dst), (size, reduced) in sizes.items():
            one = message(cluster, devices[src], devices[dst], size, number)
            one.reduce, one.ranks = reduced / reduction, (ranks[src], ranks[dst])
            if cluster.host_of[devices[src]] != cluster.host_of[devices[dst]]:
                one.held = cluster.send_buffer
            own[src].append(one)
            own[dst].append(one)
        for rank, messages in zip(ranks, own, strict=True):
            if messages:
                rank.rounds.append(messages)
    return ranks


def happen(now, ranks, flows, rates):
    """Let all happen that happens now; whether anything did."""
    happened = False
    for rank in ranks:
        if rank.enters <= now * (1 + SAME):
            happened, rank.enters = True, inf
            if not rank.rounds:
                rank.done = now
                continue
            rank.pending = len(rank.rounds[0])
            for one in rank.rounds.pop(0):
                one.missing -= 1
                if not one.missing:
                    one.ready = now + one.latency
                    flows.append(one)
    for one in list(flows):
        over = one.ready <= now * (1 + SAME)
        if over and (one.left <= 0 or rates.get(id(one)) == inf or not one.path):
            happened, one.done = True, now
            flows.remove(one)
            ends = [*zip(one.ranks, (0.0, one.reduce), strict=False)]
            for rank, reduce in ends[one.released :]:
                leave(rank, reduce, now)
        elif over and not one.released and one.left <= one.held:
            happened, one.released = True, True
            leave(one.ranks[0], 0.0, now)
    return happened


def leave(rank, reduce, now):
    """Let a rank be done with a message of its round."""
    rank.pending -= 1
    rank.reduce += reduce
    if not rank.pending:
        rank.enters, rank.reduce = now + rank.reduce, 0.0


def simulate(cluster, messages, ranks):
    """Run lone messages, which know when they are ready, and collectives to their ends."""
    flows, now = list(messages), 0.0
    while True:
        while True:
            moving = [one for one in flows if one.ready <= now * (1 + SAME)]
            paths, counts = [one.path for one in moving], [one.weight for one in moving]
            fair = max_min(paths, cluster.links.bandwidth, counts)
            rates = {id(one): rate for one, rate in zip(moving, fair, strict=True)}
            if not happen(now, ranks, flows, rates):
                break
        waits = [one.ready for one in flows if one not in moving]
        waits += [rank.enters for rank in ranks if rank.enters < inf]
        goals = [0.0 if one.released else min(one.held, one.left) for one in moving]
        ends = [
            now + (one.left - goal) / rates[id(one)]
            for one, goal in zip(moving, goals, strict=True)
        ]
        if not waits and not ends:
            return
        then = min(waits + ends)
        for one, end, goal in zip(moving, ends, goals, strict=True):
            left = one.left - rates[id(one)] * (then - now)
            one.left = goal if end <= then * (1 + SAME) else left
        now = then


def finish_times(cluster, src, dst, nbytes, start):
    """When each message has arrived."""
    sent = []
    for a, b, size, at in zip(src, dst, nbytes, start, strict=True):
        one = message(cluster, a, b, size)
        one.ready = at + one.latency
        sent.append(one)
    simulate(cluster, sent, [])
    return np.array([one.done for one in sent])
