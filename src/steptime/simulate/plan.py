"""The plan of a step: which schedule carries out each collective, on which devices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import MESSAGE, Cluster
from steptime.collectives.algorithm import schedule
from steptime.collectives.collective import collective_named
from steptime.collectives.lookup import find_algorithm, is_own
from steptime.collectives.schedule import Schedule
from steptime.collectives.selection import blocks_for
from steptime.collectives.verification import check_right
from steptime.program import Call, Callers, Matching
from steptime.simulate.choice import chosen
from steptime.simulate.library_calls import (
    LIBRARY,
    Carried,
    by_library,
    library_message_seconds,
    library_network,
)
from steptime.simulate.measured import effective_bytes, library_algorithm
from steptime.simulate.price import Offer, Pairs, link_kinds, message_seconds

_KEPT = 1 << 16  # messages of a schedule whose rounds are kept for the next group


@dataclass(frozen=True, eq=False)
class Assignment:
    """A schedule assigned to a call, and the groups of ranks that run it.

    ``effective_bytes``: the bytes as which the call's vector counts on the links, see ``measured``.
    ``sent``: what the members send each other. ``ranks`` of the groups and their ``devices``: shape
    (groups, members). ``number``: that of the call, ``own``: which of the groups that make it these
    are, and ``times``: how often each does so in a step, both of shape (groups,).
    """

    call: Call
    effective_bytes: int
    schedule: Schedule
    sent: Pairs
    ranks: Ints
    devices: Ints
    number: int
    own: Ints
    times: Longs


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of a call, of ``nbytes`` that count as ``effective_bytes`` on the links.

    ``number``: that of the call. Of each pair of sender and receiver the ``ranks`` and their
    ``devices``, shape (pairs, 2), and how many ``times`` they do so in a step, shape (pairs,).
    """

    number: int
    nbytes: int
    effective_bytes: int
    ranks: Ints
    devices: Ints
    times: Longs


@dataclass(frozen=True, eq=False)
class Plan:
    """How the calls of a step are carried out.

    ``assignments``: those of collectives of at least two ranks; ``messages``: those of messages.
    ``seconds``: of each call what it takes each group that makes it, shape (groups,), where that
    was asked for. ``library``: the library whose closed forms price some of the collectives, empty
    where none does.
    """

    assignments: tuple[Assignment, ...]
    messages: tuple[Messages, ...]
    seconds: tuple[Floats, ...]
    library: str = ""


def check_algorithms(matching: Matching, named: Mapping[str, str]) -> None:
    """Raise UsageError where a requested algorithm cannot carry out a collective.

    ``named``: algorithms by collective; they go before those that a program names itself.
    """
    for kind, name in named.items():
        find_algorithm(kind, name)
    for call, made in zip(matching.calls, matching.callers, strict=True):
        if not call.kind:
            continue
        collective_named(call.kind)
        name = named.get(call.kind, call.algorithm)
        members = made.groups.shape[1]
        if name and members > 1:
            algorithm = find_algorithm(call.kind, name)
            schedule(algorithm, members, root=call.root)
            if is_own(name):
                check_right(algorithm, members, root=call.root)


def make_plan(
    cluster: Cluster,
    matching: Matching,
    devices: Ints,
    named: Mapping[str, str],
    *,
    priced: bool,
    at_rest: bool = False,
) -> Plan:
    """Plan the calls of ranks that are on ``devices``, shape (ranks,).

    A collective takes the algorithm that is ``named`` for its kind, else its own, else that of the
    cluster's library, else the ``cheapest``. ``priced``: fill in ``seconds``; where the library is
    NCCL, they are those of its calls, and so are the bytes that its rings send, but for calls that
    name an algorithm or were measured there. ``at_rest``: what cores work for calls is in the
    program, and calls take what they do beyond.

    Raises UsageError where an algorithm cannot be simulated.
    """
    seconds: list[Floats] = []
    messages: list[Messages] = []
    assignments: list[Assignment] = []
    kinds = link_kinds(cluster)
    library = library_network(cluster) if priced else None
    used = ""
    for number, (call, made) in enumerate(zip(matching.calls, matching.callers, strict=True)):
        groups = devices[made.groups]
        members = groups.shape[1]
        own_name = named.get(call.kind, call.algorithm)
        counted = 0 if own_name else effective_bytes(cluster, call, members, at_rest=at_rest)
        counts_as = replace(call, nbytes=counted or call.nbytes)
        network = None if own_name or cluster.calls.get(call.kind or MESSAGE) else library
        if not call.kind:
            both = call.nbytes, counts_as.nbytes
            messages.append(Messages(number, *both, made.groups, groups, made.times))
            taken = message_seconds(cluster, groups[:, 0], groups[:, 1], counts_as.nbytes)
            if network:
                at_least = library_message_seconds(network, cluster, groups, call.nbytes)
                taken = np.maximum(taken, at_least)
        elif members > 1:
            by = by_library(cluster, network, call, groups) if network else None
            if by is None:
                name = own_name or library_algorithm(cluster, call.kind, members)
                blocks = blocks_for(call.nbytes)
                offers, taken = chosen(
                    cluster, kinds, counts_as, name, groups, blocks=blocks, priced=priced
                )
                carried = [_carried(own, one, call, counts_as) for own, one in offers]
            else:
                carried, taken = by
                used = LIBRARY
            assignments += (_assigned(number, counts_as, o, call, made, groups) for o in carried)
        else:
            taken = np.zeros(len(groups))
        seconds.append(taken)
    return Plan(tuple(assignments), tuple(messages), tuple(seconds), used)


def _assigned(
    number: int, counts_as: Call, one: Carried, call: Call, made: Callers, groups: Ints
) -> Assignment:
    """A call as some of its groups of devices, shape (groups, members), carry it out alike."""
    return Assignment(
        call=call,
        effective_bytes=counts_as.nbytes,
        schedule=one.schedule,
        sent=one.sent,
        ranks=made.groups[one.own],
        devices=groups[one.own],
        number=number,
        own=one.own,
        times=made.times[one.own],
    )


def _carried(own: Ints, one: Offer, call: Call, counts_as: Call) -> Carried:
    """What some groups' call sends by an offer that was chosen for it."""
    return Carried(own, _kept(one), _of_all(one.sent, call.nbytes, counts_as.nbytes))


def _of_all(sent: Pairs, nbytes: int, effective_bytes: int) -> Pairs:
    """What a call really sends, from what it sends when it counts as ``effective_bytes``."""
    return (
        sent
        if nbytes == effective_bytes
        else replace(sent, nbytes=sent.nbytes * (nbytes / effective_bytes))
    )


def _kept(one: Offer) -> Schedule:
    """The schedule with its rounds cached for all groups, unless they are many."""
    if one.sent.messages > _KEPT:
        return one.schedule
    return replace(one.schedule, generate=partial(iter, one.schedule.all_rounds))
