"""A dragonfly: groups of routers, all joined within a group, and each two groups by one link.

Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology" (2008), with
their minimal routing: at most one link inside the group, one between groups and one inside again.
"""

from collections.abc import Callable

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Ends, Wires, where, wired
from steptime.section import Section


def dragonfly(section: Section, ends: Ends) -> Fabric:
    """NICs on routers.

    Keys: ``groups``, ``routers_per_group``, ``hosts_per_router``; the tables ``local`` (links
    between two routers of a group) and ``global`` (all links between two groups, as one), each
    with ``bandwidth`` and ``latency``. The global links of a group leave from its routers in turn.
    """
    groups, routers = section.count("groups"), section.count("routers_per_group")
    hosts_per_router = section.count("hosts_per_router")
    places = groups * routers * hosts_per_router
    if places != ends.hosts:
        section.refuse("groups", f"and routers hold {places} hosts, and there are {ends.hosts}")
    count = ends.count
    router_of = ends.host_of // np.int32(hosts_per_router)
    first_local = 2 * count
    first_global = first_local + groups * routers * (routers - 1)

    def gateway(group: Ints, other: Ints) -> Ints:
        """The router of a group that has the link to another one."""
        turn = (other - group - 1) % groups
        return np.asarray(group * routers + turn * routers // max(groups - 1, 1), np.int32)

    def local(a: Ints, b: Ints) -> Ints:
        """The link between two routers of a group."""
        its, to = a % routers, b % routers
        return first_local + a * (routers - 1) + to - (to > its)

    def between(group: Ints, other: Ints) -> Ints:
        """The link between two groups."""
        return first_global + group * (groups - 1) + other - (other > group)

    def route(src: Ints, dst: Ints) -> Ints:
        a, b = router_of[src], router_of[dst]
        group, other = a // routers, b // routers
        same = group == other
        out = np.where(same, b, gateway(group, other))  # where the first local link leads
        back = np.where(same, b, gateway(other, group))
        path = [
            src,
            where(a != out, local(a, out)),
            where(~same, between(group, other)),
            where(back != b, local(back, b)),
            dst + np.int32(count),
        ]
        return np.stack(path, axis=1)

    near, far = _pairs(groups, routers, gateway)
    to_router = count + router_of
    nics = np.arange(count, dtype=np.int32)
    nodes = [f"group{g}.router{r}" for g in range(groups) for r in range(routers)]
    wires = [
        Wires("NIC up", nics, to_router, ends.rate.out),
        Wires("NIC down", to_router, nics, ends.rate.back),
        Wires("local", count + near[0], count + near[1], section.section("local").one_way()),
        Wires("global", count + far[0], count + far[1], section.section("global").one_way()),
    ]
    return wired("dragonfly", count, [*ends.names(), *nodes], wires, route)


def _pairs(groups: int, routers: int, gateway: Callable[[Ints, Ints], Ints]) -> tuple[Ints, Ints]:
    """Ends of the local links and of the global ones as routers, each of shape (2, n)."""
    a, b = _ordered_pairs(routers)
    base = np.repeat(np.arange(groups, dtype=np.int32) * routers, a.size)
    near = np.stack([base + np.tile(a, groups), base + np.tile(b, groups)])
    group, other = _ordered_pairs(groups)
    return near, np.stack([gateway(group, other), gateway(other, group)])


def _ordered_pairs(count: int) -> tuple[Ints, Ints]:
    """All (a, b) of different numbers below ``count``, in order."""
    a, b = np.nonzero(~np.eye(count, dtype=bool))
    return a.astype(np.int32), b.astype(np.int32)


FABRIC = FabricKind("dragonfly", between_nics=dragonfly)
