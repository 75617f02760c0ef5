"""Agenda: future events in a binary heap of instants, each with a list of its events."""

import numpy as np

from steptime.arrays import Floats
from steptime.simulate.network.compiled import inner
from steptime.simulate.network.state import INSTANTS, NONE, SAME, Network


@inner
def stand(net: Network, place: int, one: int, key: float) -> None:
    """Put an instant at a place in the heap."""
    net.heap[place], net.keys[place] = one, key
    net.instants[one].place = place


@inner
def rise(net: Network, place: int) -> None:
    """Move an instant towards the top of the heap until the one above it is no later."""
    heap, keys = net.heap, net.keys
    one, key = heap[place], keys[place]
    while place:
        above = (place - 1) >> 1
        if keys[above] <= key:
            break
        stand(net, place, heap[above], keys[above])
        place = above
    stand(net, place, one, key)


@inner
def smaller_below(keys: Floats, place: int, size: int, key: float) -> int:
    """The child of ``place`` with the smallest key, if that is less than ``key``, else NONE."""
    below = 2 * place + 1
    if below + 1 < size and keys[below + 1] < keys[below]:
        below += 1
    return below if below < size and keys[below] < key else NONE


@inner
def sink(net: Network, place: int) -> None:
    """Move an instant down the heap until none below it is earlier."""
    heap, keys, size = net.heap, net.keys, net.counts[0].heap
    one, key = heap[place], keys[place]
    below = smaller_below(keys, place, size, key)
    while below != NONE:
        stand(net, place, heap[below], keys[below])
        place, below = below, smaller_below(keys, below, size, key)
    stand(net, place, one, key)


@inner
def forget(net: Network, number: int) -> None:
    """Take an instant out of the heap."""
    counts = net.counts[0]
    place = int(np.int64(net.instants[number].place))
    counts.heap -= 1
    last = counts.heap
    if place != last:
        stand(net, place, net.heap[last], net.keys[last])
        sink(net, place)
        rise(net, place)
    net.instants[number].time = -1.0
    net.spare_instants[counts.spare_instants] = number
    counts.spare_instants += 1


@inner
def put(net: Network, event: int, time: float) -> None:
    """Put an event into the agenda."""
    counts = net.counts[0]
    near = np.float64(time).view(np.int64) >> 12  # alike for times that are about SAME
    memo = (near ^ (near >> 17)) & (INSTANTS - 1)
    number = net.recent[memo]
    if number == NONE or abs(net.instants[number].time - time) > SAME * time:
        counts.spare_instants -= 1
        number = net.spare_instants[counts.spare_instants]
        net.recent[memo] = number
        net.instants[number].time = time
        net.instants[number].first = NONE
        stand(net, counts.heap, number, time)
        counts.heap += 1
        rise(net, counts.heap - 1)
    first = net.instants[number].first
    net.events[event].following = first
    net.events[event].before = NONE
    net.events[event].instant = number
    if first != NONE:
        net.events[first].before = event
    net.instants[number].first = event


@inner
def drop(net: Network, event: int) -> None:
    """Take an event out of the agenda, if it is there."""
    here = net.events[event]
    number = here.instant
    if number == NONE:
        return
    if here.following != NONE:
        net.events[here.following].before = here.before
    if here.before != NONE:
        net.events[here.before].following = here.following
    else:
        net.instants[number].first = here.following
        if here.following == NONE:
            forget(net, number)
    here.instant = NONE
