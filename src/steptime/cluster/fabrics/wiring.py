"""Wiring: fabrics from groups of links that are alike, and the tree that many fabrics are."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.arrays import Flags, Ints
from steptime.cluster.cluster import NO_LINK, Fabric, Links, Router
from steptime.section import Duplex, Rate, Section


@dataclass(frozen=True)
class Ends:
    """What a network joins: NICs, ``per_host`` on each of ``hosts`` hosts, in this order.

    ``rate``: what each gives.
    """

    hosts: int
    per_host: int
    rate: Duplex

    @property
    def count(self) -> int:
        """How many ends there are."""
        return self.hosts * self.per_host

    @property
    def host_of(self) -> Ints:
        """The host of each end, shape (ends,)."""
        return np.arange(self.count, dtype=np.int32) // np.int32(self.per_host)

    def names(self) -> list[str]:
        """What each is called."""
        if self.per_host == 1:
            return host_names(self.hosts)
        return [
            f"{host}.nic{nic}" for host in host_names(self.hosts) for nic in range(self.per_host)
        ]


def host_names(hosts: int) -> list[str]:
    """What so many hosts are called."""
    return [f"host{host}" for host in range(hosts)]


@dataclass(frozen=True)
class Wires:
    """Links that are alike, from nodes to nodes, both of shape (n,)."""

    label: str
    tails: ArrayLike
    heads: ArrayLike
    rate: Rate


def wired(
    kind: str,
    ends: int,
    nodes: Sequence[str],
    wires: Sequence[Wires],
    route: Router,
    *,
    joints: Sequence[tuple[int, int]] = (),
    leave: Ints | None = None,
    arrive: Ints | None = None,
) -> Fabric:
    """A fabric of these wires, whose links are numbered in their order.

    ``route`` may leave NO_LINK anywhere in a path.
    """
    counts = [np.size(wire.tails) for wire in wires]
    tails = _joined([wire.tails for wire in wires])
    heads = _joined([wire.heads for wire in wires])
    names = tuple(
        f"{nodes[tail]} → {nodes[head]}"
        for tail, head in zip(tails.tolist(), heads.tolist(), strict=True)
    )
    links = Links(
        names,
        np.repeat([wire.rate.bandwidth for wire in wires], counts).astype(np.float64),
        np.repeat([wire.rate.latency for wire in wires], counts).astype(np.float64),
    )
    labels = [
        (label, sum(count for _, count in same))
        for label, same in groupby(
            zip([w.label for w in wires], counts, strict=True), itemgetter(0)
        )
    ]
    return Fabric(
        kind=kind,
        ends=ends,
        nodes=tuple(nodes),
        links=links,
        tails=tails,
        heads=heads,
        labels=tuple(one for one in labels if one[1]),
        route=lambda src, dst: closed_up(route(src, dst)),
        joints=tuple(joints),
        leave=leave,
        arrive=arrive,
    )


def closed_up(paths: Ints) -> Ints:
    """Paths with their links first and in order, as narrow as the longest."""
    there = paths != NO_LINK
    places = there.cumsum(axis=1, dtype=np.int32)  # counted from 1
    width = int(places[:, -1:].max(initial=0))
    if not (there[:, 1:] & ~there[:, :-1]).any():
        return paths[:, :width]
    closed = np.full((len(paths), width), NO_LINK, np.int32)
    rows = np.nonzero(there)[0]
    closed[rows, places[there] - 1] = paths[there]
    return closed


def where(condition: Flags, links: NDArray[np.integer]) -> Ints:
    """The links where a condition holds, NO_LINK elsewhere."""
    return np.where(condition, links, NO_LINK).astype(np.int32)


@dataclass(frozen=True)
class Level:
    """Switches of one height in a tree: names, and the switch above each end, shape (ends,).

    ``up``: the links from each switch to the one above it; None for the root.
    """

    names: Sequence[str]
    over: Ints
    label: str
    up: Duplex | None


def tree(
    kind: str,
    names: Sequence[str],
    label: str,
    rate: Duplex,
    levels: Sequence[Level],
) -> Fabric:
    """A tree of switches over ends, the root last: each switch is joined to that above it alone.

    A path climbs until it finds a switch over both ends. ``rate``: of the links of the ends.
    """
    ends = len(names)
    nodes = list(names)
    firsts = []  # the first node of each level
    for level in levels:
        firsts.append(len(nodes))
        nodes += level.names
    below = np.arange(ends, dtype=np.int32)
    above = firsts[0] + levels[0].over
    wires = [
        Wires(f"{label} up", below, above, rate.out),
        Wires(f"{label} down", above, below, rate.back),
    ]
    climbs: list[tuple[Ints, int, int]] = []  # switch over each end, first link up, first down
    for level, first, upper, upper_first in zip(
        levels[:-1], firsts[:-1], levels[1:], firsts[1:], strict=True
    ):
        assert level.up is not None, "only the root has nothing above it"  # noqa: S101
        switches = np.arange(len(level.names), dtype=np.int32)
        parents = np.zeros_like(switches)
        parents[level.over] = upper.over
        count = sum(np.size(wire.tails) for wire in wires)
        climbs.append((level.over, count, count + switches.size))
        below, above = first + switches, upper_first + parents
        wires.append(Wires(f"{level.label} up", below, above, level.up.out))
        wires.append(Wires(f"{level.label} down", above, below, level.up.back))

    def route(src: Ints, dst: Ints) -> Ints:
        up, down = [src], [dst + np.int32(ends)]
        for over, first_up, first_down in climbs:
            a, b = over[src], over[dst]
            up.append(where(a != b, first_up + a))
            down.append(where(a != b, first_down + b))
        return np.stack(up + down[::-1], axis=1)

    return wired(kind, ends, nodes, wires, route)


def divided(section: Section, key: str, whole: int, what: str, default: int | None = None) -> int:
    """A count that divides ``whole``."""
    part = section.count(key, default)
    if whole % part:
        section.refuse(key, f"is {part}, which does not divide the {whole} {what}")
    return part


def _joined(parts: Sequence[ArrayLike]) -> Ints:
    return np.concatenate([np.atleast_1d(np.asarray(part, np.int32)) for part in parts])
