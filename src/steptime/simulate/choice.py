"""Choosing the algorithm of a collective, and what it takes each group."""

from contextlib import suppress
from typing import TypeAlias

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.collectives.algorithm import algorithms, schedule
from steptime.collectives.lookup import find_algorithm
from steptime.errors import UsageError
from steptime.program import Call
from steptime.simulate.price import Offer, group_seconds, offer

Offers: TypeAlias = list[tuple[Ints, Offer]]
"""Offers of one algorithm, each with the numbers of the groups that would run it."""


def chosen(
    cluster: Cluster,
    kinds: Ints,
    call: Call,
    name: str,
    groups: Ints,
    *,
    blocks: int,
    priced: bool,
) -> tuple[Offers, Floats]:
    """The offers by which ``call`` runs on groups of devices, shape (groups, members).

    ``name``: the algorithm; where it is empty, the ``cheapest``. ``blocks``: into how many a
    pipelined one cuts the vector. Also returns what each group
    takes, in seconds, shape (groups,): zeros unless ``priced`` or the cheapest was looked for.
    ``kinds``: the kind of each link of the cluster, as ``link_kinds`` numbers them.

    Raises UsageError where the algorithm cannot be simulated, or none can.
    """
    if not name:
        return cheapest(cluster, kinds, call, groups, blocks)
    offers = _offers(cluster, call, name, groups, blocks)
    return offers, _seconds(offers, kinds) if priced else np.zeros(len(groups))


def cheapest(
    cluster: Cluster, kinds: Ints, call: Call, groups: Ints, blocks: int
) -> tuple[Offers, Floats]:
    """The algorithm that takes the least time on the slowest group.

    Left out are algorithms of more than MOST_TRANSFERS transfers; those that depend on hosts, where
    groups lie on one host or every member on its own; and ``flat``, because the network model has
    no cost of a message at its root.
    """
    hosts = np.sort(cluster.host_of[groups], axis=1)
    most = int((np.diff(hosts, axis=1) > 0).sum(axis=1).max()) + 1
    two_levels = 1 < most < groups.shape[1]
    candidates: list[Offers] = []
    for algorithm in algorithms(call.kind).values():
        sensible = algorithm.name != "flat" and (two_levels or "hosts" not in algorithm.takes)
        if sensible and algorithm.serves(groups.shape[1]):
            with suppress(UsageError):
                candidates.append(_offers(cluster, call, algorithm.name, groups, blocks))
    if not candidates:
        raise UsageError(
            f"no {call.kind} for {groups.shape[1]} ranks has few enough transfers to be simulated: "
            "ask for fewer ranks in a group"
        )
    bounds = [max(one.least for _, one in offers) for offers in candidates]
    best = candidates[0], np.full(len(groups), np.inf)
    for number in np.argsort(bounds, kind="stable"):
        if bounds[number] < best[1].max():  # else it cannot be cheaper
            seconds = _seconds(candidates[number], kinds)
            if seconds.max() < best[1].max():
                best = candidates[number], seconds
    return best


def _offers(cluster: Cluster, call: Call, name: str, groups: Ints, blocks: int) -> Offers:
    """One offer for each pattern in which groups lie on hosts, if the algorithm asks for hosts."""
    algorithm = find_algorithm(call.kind, name)
    hosts = cluster.host_of[groups]
    if "hosts" not in algorithm.takes:
        hosts = np.zeros_like(hosts)
    patterns, which = np.unique(_relabelled(hosts), axis=0, return_inverse=True)
    offers = []
    for number, pattern in enumerate(patterns):
        one = schedule(
            algorithm,
            groups.shape[1],
            root=call.root,
            hosts=tuple(pattern.tolist()),
            blocks=blocks,
        )
        own = np.flatnonzero(which.reshape(-1) == number).astype(np.int32)
        offers.append((own, offer(cluster, one, groups[own], call.nbytes)))
    return offers


def _seconds(offers: Offers, kinds: Ints) -> Floats:
    """What each group takes, in seconds, shape (groups,)."""
    seconds = np.empty(sum(own.size for own, _ in offers))
    for own, one in offers:
        seconds[own] = group_seconds(one, kinds)
    return seconds


def _relabelled(hosts: Ints) -> Ints:
    """Number the hosts of each group, shape (groups, members), in the order of appearance."""
    rows, which = np.unique(hosts, axis=0, return_inverse=True)
    for row in rows:
        numbers = {host: number for number, host in enumerate(dict.fromkeys(row.tolist()))}
        row[:] = [numbers[host] for host in row.tolist()]
    return np.asarray(rows[which.reshape(-1)])
