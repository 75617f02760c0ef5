"""Pairs: every two devices of a host have a link each way, with what was measured for it."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import NO_LINK, Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.listed import Link, listed_links
from steptime.cluster.fabrics.wiring import Wires, wired
from steptime.section import Rate, Section


def inside_pairs(section: Section, devices: int) -> Fabric:
    """Every pair of devices has a link of its own, with what was measured for it.

    Keys: ``pairs``, a list of tables with ``between = [0, 1]`` (both ways) or ``from`` and ``to``,
    and ``bandwidth`` and ``latency``. Ranks of a CPU host share its cores and memory: ``together``
    is the ``bandwidth`` and ``latency`` of what all pairs share, and ``port`` those of what one
    device sends and receives together; each may be left out.
    """
    links = listed_links(
        section, "pairs", lambda table, key, one: _device(table, key, one, devices)
    )
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


def _shared(links: Sequence[Link], table: Ints, shared: Mapping[str, Rate]) -> Fabric:
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


def _device(table: Section, key: str, one: object, devices: int) -> int:
    if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < devices:
        table.refuse(key, f"has {one!r}: a device is a number from 0 to {devices - 1}")
    return one


FABRIC = FabricKind("pairs", inside=inside_pairs)
