"""Links as a list: between devices of a host, each pair its own, or between named nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import permutations

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import NO_LINK, Fabric, Router
from steptime.cluster.fabrics.wiring import Wires, host_names, wired
from steptime.section import Rate, Section


@dataclass(frozen=True)
class _Link:
    tail: int
    head: int
    rate: Rate


def inside_pairs(section: Section, devices: int) -> Fabric:
    """Every pair of devices has a link of its own, with what was measured for it.

    Keys: ``pairs``, a list of tables with ``between = [0, 1]`` (both ways) or ``from`` and ``to``,
    and ``bandwidth`` and ``latency``. Ranks of a CPU host share its cores and memory: ``together``
    is the ``bandwidth`` and ``latency`` of what all pairs share, and ``port`` those of what one
    device sends and receives together; each may be left out.
    """
    links = _listed(section, "pairs", lambda table, key, one: _device(table, key, one, devices))
    number_of: dict[tuple[int, int], int] = {}
    for number, link in enumerate(links):
        if number_of.setdefault((link.tail, link.head), number) != number:
            section.refuse("pairs", f"has the one from device {link.tail} to {link.head} twice")
    lacking = next(
        (pair for pair in permutations(range(devices), 2) if pair not in number_of), None
    )
    if lacking:
        section.refuse("pairs", f"lacks the one from device {lacking[0]} to {lacking[1]}")
    table = np.full((devices, devices), NO_LINK, np.int32)
    for pair, number in number_of.items():
        table[pair] = number

    shared = [key for key in ("together", "port") if section.has(key)]
    return _shared(links, table, {key: section.section(key).one_way() for key in shared})


def _shared(links: Sequence[_Link], table: Ints, shared: Mapping[str, Rate]) -> Fabric:
    """Pairs behind what all of them share and what each device does, where there is that.

    ``table``: the link of each pair, shape (devices, devices).
    """
    devices = len(table)
    everyone = np.arange(devices, dtype=np.int32)
    nodes = [f"device{device}" for device in range(devices)]
    leave = enter = relay = everyone  # the nodes where messages set out, arrive, and take a pair
    wires: list[Wires] = []
    joints: list[tuple[int, int]] = []

    def add(name: str) -> Ints:
        nodes.extend(name.format(device) for device in range(devices))
        return everyone + np.int32(len(nodes) - devices)

    if "port" in shared:
        enter, leave = add("port{} in"), add("port{} out")
        relay = leave
        wires.append(Wires("port", enter, leave, shared["port"]))
        joints += [*_each(everyone, enter), *_each(leave, everyone)]
    if "together" in shared:
        relay, (first, last) = add("pairs{}"), (len(nodes), len(nodes) + 1)
        nodes += ["all pairs in", "all pairs out"]
        wires.append(Wires("all pairs", first, last, shared["together"]))
        joints += [(node, first) for node in leave.tolist()]
        joints += [(last, node) for node in relay.tolist()]
    listed = [Wires("pair", relay[one.tail], enter[one.head], one.rate) for one in links]

    def route(src: Ints, dst: Ints) -> Ints:
        path = [table[src, dst]]
        begin = np.int32(len(links))
        ports = np.int32(devices if "port" in shared else 0)
        if "together" in shared:
            path.insert(0, np.full_like(src, begin + ports))
        if ports:
            path = [begin + src, *path, begin + dst]
        return np.stack(path, axis=1)

    return wired("pairs", devices, nodes, [*listed, *wires], route, joints=joints)


def _each(tails: Ints, heads: Ints) -> list[tuple[int, int]]:
    return list(zip(tails.tolist(), heads.tolist(), strict=True))


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

    links = _listed(section, "links", node)
    reach = _reach([(link.tail, link.head) for link in links], len(nodes))
    back = _reach([(link.head, link.tail) for link in links], len(nodes))
    apart = next((h for h in range(hosts) if not (reach[h] and back[h])), None)
    if apart is not None:
        section.refuse("links", f"do not join host{apart} and host0 both ways: add links for it")
    route = _shortest(links, len(nodes))
    return wired("links", hosts, list(nodes), _wires("link", links), route)


def _listed(section: Section, key: str, node: Callable[[Section, str, object], int]) -> list[_Link]:
    """A link for each direction of each table of the list."""
    links = []
    for table in section.sections(key):
        both = table.has("between")
        ends = table.raw("between") if both else [table.raw("from"), table.raw("to")]
        if not isinstance(ends, list) or len(ends) != 2:
            table.refuse("between", f"is {ends!r}: it must be a list of two")
        keys = ("between", "between") if both else ("from", "to")
        tail, head = (node(table, its, end) for its, end in zip(keys, ends, strict=True))
        if tail == head:
            table.refuse("", "leads from a node to itself")
        rate = table.one_way()
        links.append(_Link(tail, head, rate))
        if both:
            links.append(_Link(head, tail, rate))
        table.finish()
    return links


def _wires(label: str, links: Sequence[_Link]) -> list[Wires]:
    return [Wires(label, link.tail, link.head, link.rate) for link in links]


def _device(table: Section, key: str, one: object, devices: int) -> int:
    if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < devices:
        table.refuse(key, f"has {one!r}: a device is a number from 0 to {devices - 1}")
    return one


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


def _shortest(links: Sequence[_Link], nodes: int) -> Router:
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
