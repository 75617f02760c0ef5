"""Collectives whose messages never share a link: their times, round by round, without events."""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats
from steptime.simulate.network.compiled import in_place
from steptime.simulate.network.series import move, record, widen
from steptime.simulate.network.state import NONE, SAME, Moves, Network
from steptime.simulate.network.tables import by_pointer


@by_pointer
class Progress(NamedTuple):
    """The times that ranks and links have reached.

    ``entered``: when each rank entered its round; ``leaving``: when it will be done with its
    messages, -1 before the first; ``busy``: the seconds that it will reduce then; shape (ranks,).
    ``until``: until when each link is in use, shape (links,).
    """

    entered: Floats
    leaving: Floats
    busy: Floats
    until: Floats


def at_first(entered: Floats, links: int) -> Progress:
    """The Progress when ranks enter their first rounds."""
    ranks = entered.size
    return Progress(entered.copy(), np.full(ranks, -1.0), np.zeros(ranks), np.zeros(links))


@in_place
def follow(net: Network, moves: Moves, progress: Progress, last: bool) -> bool:
    """Let all messages of some rounds arrive; returns False when two would share a link.

    After the ``last`` rounds time moves on to when the last rank is done.

    Without events this takes a fraction of the engine's time.
    """
    entered, leaving, busy = progress.entered, progress.leaving, progress.busy
    until = progress.until
    counts, rows = net.counts[0], moves.rows
    begin = 0
    while begin < len(rows):
        end = begin
        while end < len(rows) and rows[end].round == rows[begin].round:
            one = rows[end]
            src, dst, nbytes = one.rank[0], one.rank[1], one.nbytes
            start = max(entered[src], entered[dst]) + one.latency
            path, hops, rate = moves.paths[end], 0, np.inf
            while hops < len(path) and path[hops] != NONE:
                link = net.links[path[hops]]
                link.nbytes += nbytes
                rate = min(rate, link.bandwidth)
                hops += 1
            done = start + nbytes / rate
            for hop in range(hops):
                if nbytes > 0 and net.links[path[hop]].bandwidth < np.inf:
                    if start < until[path[hop]] * (1 - SAME):
                        return False
                    until[path[hop]] = done
            widen(net, done)
            record(net, path, hops, nbytes, start, done)
            leaving[src], leaving[dst] = max(leaving[src], done), max(leaving[dst], done)
            busy[dst] += one.reduce
            counts.messages += src != dst
            end += 1
        for number in range(begin, end):
            for side in range(2):
                rank = rows[number].rank[side]
                if leaving[rank] >= 0:
                    entered[rank] = leaving[rank] + busy[rank]
                    leaving[rank], busy[rank] = -1.0, 0.0
        begin = end
    if last:
        now = counts.now
        for rank in range(entered.size):
            now = max(now, entered[rank])
        move(net, now)
    return True
