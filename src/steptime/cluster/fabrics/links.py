"""Links: any network of hosts and switches, link by link."""

from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import NO_LINK, Fabric, Router
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.listed import Link, listed_links
from steptime.cluster.fabrics.wiring import Wires, host_names, wired
from steptime.section import Section


def network_links(section: Section, hosts: int) -> Fabric:
    """Hosts and switches with the links between them; messages take the shortest path.

    Key: ``links``, a list of tables with ``between = ["host0", "spine"]`` (both ways) or ``from``
    and ``to``, and ``bandwidth`` and ``latency``. Hosts are called host0, host1 and so on; any
    other name is a switch. The shortest path is that of the least latency and then of the fewest
    links, one for each pair.
    """
    nodes = {name: place for place, name in enumerate(host_names(hosts))}

    def node(table: Section, key: str, one: object) -> int:
        if not isinstance(one, str) or not one:
            table.refuse(key, f"has {one!r}: a node is named in quotes, such as 'host0'")
        if one.startswith("host") and one[4:].isdecimal() and one not in nodes:
            table.refuse(key, f"names {one}: there are {hosts} hosts, counted from host0")
        return nodes.setdefault(one, len(nodes))

    links = listed_links(section, "links", node)
    reach = _reach([(link.tail, link.head) for link in links], len(nodes))
    back = _reach([(link.head, link.tail) for link in links], len(nodes))
    apart = next((h for h in range(hosts) if not (reach[h] and back[h])), None)
    if apart is not None:
        section.refuse("links", f"do not join host{apart} and host0 both ways: add links for it")
    route = _shortest(links, len(nodes))
    return wired(
        "links",
        hosts,
        list(nodes),
        [Wires("link", one.tail, one.head, one.rate) for one in links],
        route,
    )


def _reach(links: list[tuple[int, int]], nodes: int) -> list[bool]:
    """Whether each node can be reached from node 0."""
    following: list[list[int]] = [[] for _ in range(nodes)]
    for tail, head in links:
        following[tail].append(head)
    reached = [False] * nodes
    reached[0], waiting = True, [0]
    while waiting:
        for head in following[waiting.pop()]:
            if not reached[head]:
                reached[head] = True
                waiting.append(head)
    return reached


def _shortest(links: Sequence[Link], nodes: int) -> Router:
    """Shortest paths (Dijkstra); the tree of each source is made when it is first asked for."""
    leaving: list[list[tuple[int, int, float]]] = [[] for _ in range(nodes)]
    for number, link in enumerate(links):
        leaving[link.tail].append((link.head, number, link.rate.latency))

    @lru_cache(maxsize=1024)
    def tree(source: int) -> tuple[list[int], list[int]]:
        """The link into each node on the way there, and the node before."""
        best = [(np.inf, 0)] * nodes
        link_into, before = [NO_LINK] * nodes, [source] * nodes
        best[source] = (0.0, 0)
        waiting = [(0.0, 0, source)]
        while waiting:
            seconds, hops, node = heappop(waiting)
            if (seconds, hops) > best[node]:
                continue
            for head, link, latency in leaving[node]:
                there = (seconds + latency, hops + 1)
                if there < best[head]:
                    best[head], link_into[head], before[head] = there, link, node
                    heappush(waiting, (*there, head))
        return link_into, before

    def path(src: int, dst: int) -> list[int]:
        link_into, before = tree(src)
        taken = []
        while dst != src:
            taken.append(link_into[dst])
            dst = before[dst]
        return taken[::-1]

    def route(src: Ints, dst: Ints) -> Ints:
        pairs, which = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)
        paths = [path(a, b) for a, b in pairs.T.tolist()]
        width = max(map(len, paths), default=0)
        padded = [taken + [NO_LINK] * (width - len(taken)) for taken in paths]
        return np.array(padded, np.int32).reshape(-1, width)[which.reshape(-1)]

    return route


FABRIC = FabricKind("links", between_hosts=network_links)
