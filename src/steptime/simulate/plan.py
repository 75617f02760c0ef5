"""The plan of a step: which schedule carries out each collective, on which devices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import MESSAGE, Cluster
from steptime.collectives.algorithm import schedule
from steptime.collectives.collective import collective_named
from steptime.collectives.lookup import find_algorithm, is_own
from steptime.collectives.schedule import Schedule
from steptime.collectives.selection import blocks_for
from steptime.collectives.verification import check_right
from steptime.program import Call, Instances, Matching
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
    (groups, members). ``instances``: the numbers of the call's instances that run so, shape (n,),
    and ``group``: the group that runs each, shape (n,).
    """

    call: Call
    effective_bytes: int
    schedule: Schedule
    sent: Pairs
    ranks: Ints
    devices: Ints
    instances: Ints
    group: Ints


@dataclass(frozen=True, eq=False)
class Plan:
    """How all instances of the calls of a step are carried out.

    ``assignments``: those of collectives of at least two ranks. ``messages``: the instances that
    are a message, shape (messages,). Of each message ``ends``, the devices of sender and receiver,
    shape (messages, 2), and ``nbytes`` and ``effective_bytes``, shape (messages,). ``seconds``:
    what each instance takes, shape (instances,), where that was asked for. ``library``: the library
    whose closed forms price some of the collectives, empty where none does.
    """

    assignments: tuple[Assignment, ...]
    messages: Ints
    ends: Ints
    nbytes: Floats
    effective_bytes: Floats
    seconds: Floats
    library: str = ""


def check_algorithms(matching: Matching, named: Mapping[str, str]) -> None:
    """Raise UsageError where a requested algorithm cannot carry out a collective.

    ``named``: algorithms by collective; they go before those that a program names itself.
    """
    for kind, name in named.items():
        find_algorithm(kind, name)
    for call, when in zip(matching.calls, matching.instances, strict=True):
        if not call.kind:
            continue
        collective_named(call.kind)
        name = named.get(call.kind, call.algorithm)
        members = when.groups.shape[1]
        if name and members > 1:
            algorithm = find_algorithm(call.kind, name)
            schedule(algorithm, members, root=call.root)
            if is_own(name):
                check_right(algorithm, members, root=call.root)


def make_plan(
    cluster: Cluster, matching: Matching, devices: Ints, named: Mapping[str, str], *, priced: bool
) -> Plan:
    """Plan the instances of ranks that are on ``devices``, shape (ranks,).

    A collective takes the algorithm that is ``named`` for its kind, else its own, else that of the
    cluster's library, else the ``cheapest``. ``priced``: fill in ``seconds``; where the library is
    NCCL, they are those of its calls, and so are the bytes that its rings send, but for calls that
    name an algorithm or were measured there.

    Raises UsageError where an algorithm cannot be simulated.
    """
    seconds = np.zeros(matching.call.size)
    nbytes = np.array([call.nbytes for call in matching.calls], np.float64)
    effective = nbytes.copy()
    messages, ends = np.empty(0, np.int32), np.empty((0, 2), np.int32)
    assignments: list[Assignment] = []
    kinds = link_kinds(cluster)
    library = library_network(cluster) if priced else None
    used = ""
    for number, (call, when) in enumerate(zip(matching.calls, matching.instances, strict=True)):
        instances, group = when.numbers, when.group
        groups = devices[when.groups]
        members = groups.shape[1]
        own_name = named.get(call.kind, call.algorithm)
        nbytes_on_links = call.nbytes if own_name else effective_bytes(cluster, call, members)
        counts_as = replace(call, nbytes=nbytes_on_links)
        effective[number] = counts_as.nbytes
        network = None if own_name or cluster.calls.get(call.kind or MESSAGE) else library
        if not call.kind:
            messages, ends = np.append(messages, instances), np.append(ends, groups[group], axis=0)
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
                carried = [
                    Carried(own, _kept(one), _of_all(one.sent, call.nbytes, counts_as.nbytes))
                    for own, one in offers
                ]
            else:
                carried, taken = by
                used = LIBRARY
            assignments += [_assigned(counts_as, one, call, when, groups) for one in carried]
        else:
            continue
        seconds[instances] = taken[group]
    of_message = matching.call[messages]
    own, counted = nbytes[of_message], effective[of_message]
    return Plan(tuple(assignments), messages, ends, own, counted, seconds, used)


def _assigned(
    counts_as: Call, one: Carried, call: Call, when: Instances, groups: Ints
) -> Assignment:
    """The instances that some groups of devices, shape (groups, members), carry out alike."""
    taking_part = np.isin(when.group, one.own)
    return Assignment(
        call=call,
        effective_bytes=counts_as.nbytes,
        schedule=one.schedule,
        sent=one.sent,
        ranks=when.groups[one.own],
        devices=groups[one.own],
        instances=when.numbers[taking_part],
        group=np.searchsorted(one.own, when.group[taking_part]).astype(np.int32),
    )


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
