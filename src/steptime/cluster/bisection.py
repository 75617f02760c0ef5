"""Bisection bandwidth: how much the two halves of a cluster can send each other."""

from collections import deque

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster.cluster import NO_LINK, Cluster, Fabric


def bisection(cluster: Cluster) -> float:
    """Bytes/s that the first half of the hosts in order can send to the other, all at once.

    The maximum flow over the links of the network (Ford and Fulkerson, 1956), whatever routes a
    message may take, in the direction that has less. Where the middle host is within a group, such
    as a pod that the halves share, the cuts at the two ends of that group count too, scaled to half
    the hosts. Of a single host: between its devices; 0 for a single device. The least over *all*
    halves is NP-hard: hosts are taken to be listed so that neighbours are near.
    """
    fabric = cluster.network or cluster.inside
    if fabric is None:
        return 0.0
    places = cluster.hosts if cluster.network else cluster.devices
    count = fabric.links.bandwidth.size
    first = cluster.links.bandwidth.size - count if cluster.network else 0
    bandwidth = cluster.links.bandwidth[first : first + count]
    place_of = np.arange(fabric.ends) // (fabric.ends // places)
    half = places // 2
    return min(
        _across(fabric, bandwidth, side) * half / min(cut, places - cut)
        for cut in _cuts(fabric, places)
        for side in (place_of < cut, place_of >= cut)
    )


def _cuts(fabric: Fabric, places: int) -> set[int]:
    """The middle, and the nearest places on either side where neighbours are furthest apart."""
    ends = np.arange(0, fabric.ends, fabric.ends // places, dtype=np.int32)
    hops = (fabric.route(ends[:-1], ends[1:]) != NO_LINK).sum(axis=1)
    far = 1 + np.flatnonzero(hops == hops.max())
    half = places // 2
    return {
        half,
        int(far[far <= half].max(initial=0)) or half,
        int(far[far >= half].min(initial=half)),
    }


def _across(fabric: Fabric, bandwidth: Floats, sources: np.ndarray) -> float:
    """The maximum flow from some ends to the others, shape (ends,): each side is one node."""
    node = np.arange(2, 2 + len(fabric.nodes), dtype=np.int32)
    node[: fabric.ends] = np.where(sources, 0, 1)
    joints = np.array(fabric.joints, np.int32).reshape(-1, 2)
    tails = node[np.concatenate([fabric.tails, joints[:, 0]])]
    heads = node[np.concatenate([fabric.heads, joints[:, 1]])]
    capacity = np.concatenate([bandwidth, np.full(len(joints), np.inf)])
    return _largest_flow(tails, heads, capacity, 2 + len(fabric.nodes))


def _largest_flow(tails: Ints, heads: Ints, capacity: Floats, nodes: int) -> float:
    """The maximum flow from node 0 to node 1 (Edmonds and Karp, 1972)."""
    pairs, which = np.unique(np.stack([tails, heads]), axis=1, return_inverse=True)
    room: list[dict[int, float]] = [{} for _ in range(nodes)]
    summed = np.zeros(pairs.shape[1])
    np.add.at(summed, which.reshape(-1), capacity)
    for (tail, head), most in zip(pairs.T.tolist(), summed.tolist(), strict=True):
        room[tail][head] = room[tail].get(head, 0.0) + most
        room[head].setdefault(tail, 0.0)
    total = 0.0
    while path := _path_with_room(room):
        least = min(room[tail][head] for tail, head in path)
        total += least
        if least == np.inf:
            return total
        for tail, head in path:
            room[tail][head] -= least
            room[head][tail] += least
    return total


def _path_with_room(room: list[dict[int, float]]) -> list[tuple[int, int]]:
    """The shortest augmenting path from node 0 to node 1, as (tail, head), or none."""
    before = {0: 0}
    waiting = deque([0])
    while waiting and 1 not in before:
        node = waiting.popleft()
        for head, more in room[node].items():
            if more > 0 and head not in before:
                before[head] = node
                waiting.append(head)
    path = []
    node = 1
    while node in before and node:
        path.append((before[node], node))
        node = before[node]
    return path
