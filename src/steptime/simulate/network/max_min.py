"""Sharing the links: max-min fair rates, recomputed where the flows on a link have changed."""

import numpy as np

from steptime.simulate.network.agenda import drop, put, smaller_below
from steptime.simulate.network.compiled import inner
from steptime.simulate.network.series import record
from steptime.simulate.network.state import NODE, NONE, Network


@inner
def change(net: Network, link: int) -> None:
    """Note that the flows on a link have changed."""
    if not net.links[link].changed:
        net.links[link].changed = True
        net.changed[net.counts[0].changed] = link
        net.counts[0].changed += 1


@inner
def join(net: Network, number: int) -> bool:
    """Put a flow on the links of its path; returns whether any of them can limit its rate."""
    limited = False
    for hop in range(net.flows[number].hops):
        link = net.links[net.paths[number, hop]]
        if link.bandwidth < np.inf:
            limited = True
            node = (np.int64(number) << NODE) | hop
            first = link.first
            net.following[number, hop], net.before[number, hop] = first, NONE
            if first != NONE:
                net.before[first >> NODE, first & ((1 << NODE) - 1)] = node
            link.first = node
            link.flows += 1
            link.weight += net.flows[number].weight
            change(net, net.paths[number, hop])
    return limited


@inner
def leave(net: Network, number: int) -> None:
    """Take a flow off the links of its path."""
    low = (1 << NODE) - 1
    for hop in range(net.flows[number].hops):
        link = net.links[net.paths[number, hop]]
        if link.bandwidth < np.inf:
            following, before = net.following[number, hop], net.before[number, hop]
            if following != NONE:
                net.before[following >> NODE, following & low] = before
            if before != NONE:
                net.following[before >> NODE, before & low] = following
            else:
                link.first = following
            link.flows -= 1
            link.weight -= net.flows[number].weight
            if link.flows:
                change(net, net.paths[number, hop])


@inner
def set_rate(net: Network, number: int, rate: float) -> None:
    """Set a flow's rate from now on.

    Rates are lazy: nothing is done to a flow between two changes of its rate. That is right because
    its bytes fall evenly in between, so that ``left`` as of ``since`` and the ``rate`` tell what is
    left at any time, and the arrival that is put into the agenda here stays true until the next
    change drops it.
    """
    flow, now = net.flows[number], net.counts[0].now
    if abs(rate - flow.rate) <= 1e-14 * rate:
        return
    if flow.rate > 0:
        carried = min(flow.rate * (now - flow.since), flow.left)
        record(net, net.paths[number], int(np.int64(flow.hops)), carried, flow.since, now)
        flow.left -= carried
    flow.since, flow.rate = now, rate
    drop(net, 2 * number)
    ahead = flow.left if flow.released else flow.left - flow.held
    put(net, 2 * number, now + max(ahead, 0.0) / rate)


@inner
def alone(net: Network, number: int) -> float:
    """The rate of a flow that shares none of its links, else 0."""
    rate = np.inf
    for hop in range(net.flows[number].hops):
        link = net.links[net.paths[number, hop]]
        if link.flows > 1 and link.bandwidth < np.inf:
            return 0.0
        rate = min(rate, link.bandwidth)
    return rate


@inner
def component(net: Network, link: int, turn: int) -> int:
    """Put all links that flows connect with ``link`` into ``found``; returns how many."""
    net.found[0] = link
    net.links[link].seen = turn
    done, size = 0, 1
    while done < size:
        here = net.links[net.found[done]]
        here.room, here.unfixed = here.bandwidth, here.weight
        net.shares[done] = here.bandwidth / here.weight
        done += 1
        node = here.first
        while node != NONE:
            number, hop = node >> NODE, node & ((1 << NODE) - 1)
            flow = net.flows[number]
            if flow.seen != turn:
                flow.seen = turn
                for other in range(flow.hops):
                    there = net.links[net.paths[number, other]]
                    if there.seen != turn and there.bandwidth < np.inf:
                        there.seen = turn
                        net.found[size] = net.paths[number, other]
                        size += 1
            node = net.following[number, hop]
    return size


@inner
def settle(net: Network, place: int, size: int) -> None:
    """Move a link down the heap of shares until none below it has a smaller one."""
    links, shares = net.found, net.shares
    one, key = links[place], shares[place]
    below = smaller_below(shares, place, size, key)
    while below != NONE:
        links[place], shares[place] = links[below], shares[below]
        place, below = below, smaller_below(shares, below, size, key)
    links[place], shares[place] = one, key


@inner
def fill(net: Network, size: int) -> None:
    """Share the links of a component fairly (progressive filling; Bertsekas and Gallager, 6.5).

    The link that can give its flows the least fixes their rates; then the next, with what those
    have left.

    Why no rate must be taken back: none of the link's flows can have more than its share, and each
    can have that much, since no other link has a smaller one. What they take of another link, of
    room R and n flows, is a share s <= R / n, and leaves (R - s) / (n - 1) >= R / n: shares only
    rise. So a key in the heap that is out of date is too small, never too large. A link that comes
    to the top is asked again, and is the least only if its share is still the key.

    A flow of weight w counts as w flows in this. Weights are whole multiples of 2^-10, so that
    their sums are exact, and that of the flows without a rate is 0 when none is left.
    """
    for place in range(size // 2 - 1, -1, -1):
        settle(net, place, size)
    while size:
        link = net.links[net.found[0]]
        if link.unfixed:
            share = max(link.room, 0.0) / link.unfixed
            if share > net.shares[0]:
                net.shares[0] = share
                settle(net, 0, size)
                continue
            fix(net, link.first, share)
        size -= 1
        net.found[0], net.shares[0] = net.found[size], net.shares[size]
        settle(net, 0, size)


@inner
def fix(net: Network, node: int, share: float) -> None:
    """Give all flows of a link that have no rate yet this ``share``, each times its weight."""
    turn = net.counts[0].turn
    while node != NONE:
        number, hop = node >> NODE, node & ((1 << NODE) - 1)
        flow = net.flows[number]
        if flow.seen == turn:
            flow.seen = -turn
            for other in range(flow.hops):
                there = net.links[net.paths[number, other]]
                there.room -= share * flow.weight
                there.unfixed -= flow.weight
            set_rate(net, number, share * flow.weight)
        node = net.following[number, hop]


@inner
def share(net: Network) -> None:
    """Recompute the rates of all flows that the links that have changed can reach.

    A flow's fair rate depends on the flows it shares a link with, on those that these share one
    with, and so on: on its component, and on nothing else. All other flows keep their rates.
    """
    counts = net.counts[0]
    counts.turn += 1
    for place in range(counts.changed):
        number = net.changed[place]
        link = net.links[number]
        link.changed = False
        if link.flows and link.seen != counts.turn:
            flow = link.first >> NODE
            rate = alone(net, flow) if link.flows == 1 else 0.0
            if rate:
                set_rate(net, flow, rate)
            else:
                fill(net, component(net, number, counts.turn))
    counts.changed = 0
