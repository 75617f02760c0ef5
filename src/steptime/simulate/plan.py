"""How the collectives and messages of a step are carried out on a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.collectives.algorithm import schedule
from steptime.collectives.collective import collective_named
from steptime.collectives.lookup import find_algorithm, is_own
from steptime.collectives.schedule import Schedule
from steptime.collectives.verification import check_right
from steptime.program import Call, Matching
from steptime.simulate.choice import chosen
from steptime.simulate.measured import follows, worth
from steptime.simulate.price import Offer, Pairs, link_kinds, message_seconds

_KEPT = 1 << 16  # messages of a schedule whose rounds are kept for the next group


@dataclass(frozen=True, eq=False)
class Way:
    """One schedule, and the groups that carry it out.

    ``worth``: the bytes as which its vector counts on the links, see ``measured``. ``ranks`` and
    their ``devices``: shape (groups, members). ``meetings``, shape (n,): those that it serves, and
    ``group`` which group meets there, shape (n,).
    """

    call: Call
    worth: int
    schedule: Schedule
    sent: Pairs
    ranks: Ints
    devices: Ints
    meetings: Ints
    group: Ints


@dataclass(frozen=True, eq=False)
class Plan:
    """How all meetings of a step are carried out.

    ``ways``: those of collectives of at least two ranks. ``messages``: the meetings that are a
    message, shape (messages,), and the ``ends``, ``nbytes`` and ``worth`` of each: devices of
    sender and receiver, shape (messages, 2), and bytes and what they count as, shape (messages,).
    ``seconds``: what each meeting takes, shape (meetings,), where that was asked.
    """

    ways: tuple[Way, ...]
    messages: Ints
    ends: Ints
    nbytes: Floats
    worth: Floats
    seconds: Floats


def check_algorithms(met: Matching, named: Mapping[str, str]) -> None:
    """Raise UsageError where an algorithm that is asked for cannot carry out a collective.

    ``named``: algorithms by collective; they go before those that a program names itself.
    """
    for kind, name in named.items():
        find_algorithm(kind, name)
    for call, when in zip(met.calls, met.instances, strict=True):
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


def plan(
    cluster: Cluster, met: Matching, devices: Ints, named: Mapping[str, str], *, priced: bool
) -> Plan:
    """How to carry out the meetings of ranks that are on ``devices``, shape (ranks,).

    A collective takes the algorithm that is ``named`` for its kind, else its own, else that of the
    cluster's library, else the ``cheapest``. ``priced``: say also what each takes.

    Raises UsageError where an algorithm cannot be simulated.
    """
    seconds = np.zeros(met.call.size)
    nbytes = np.array([call.nbytes for call in met.calls], np.float64)
    worths = nbytes.copy()
    messages, ends = np.empty(0, np.int32), np.empty((0, 2), np.int32)
    ways: list[Way] = []
    kinds = link_kinds(cluster)
    for number, (call, when) in enumerate(zip(met.calls, met.instances, strict=True)):
        meetings, group = when.meetings, when.group
        groups = devices[when.groups]
        members = groups.shape[1]
        own_name = named.get(call.kind, call.algorithm)
        counts_as = call if own_name else replace(call, nbytes=worth(cluster, call, members))
        worths[number] = counts_as.nbytes
        if not call.kind:
            messages, ends = np.append(messages, meetings), np.append(ends, groups[group], axis=0)
            taken = message_seconds(cluster, groups[:, 0], groups[:, 1], counts_as.nbytes)
        elif members > 1:
            name = own_name or follows(cluster, call.kind, members)
            offers, taken = chosen(cluster, kinds, counts_as, name, groups, priced=priced)
            for own, one in offers:
                met_here = np.isin(group, own)
                which = np.searchsorted(own, group[met_here]).astype(np.int32)
                served = meetings[met_here]
                ranks = when.groups[own]
                sent = _of_all(one.sent, call.nbytes, counts_as.nbytes)
                ways.append(
                    Way(
                        call=call,
                        worth=counts_as.nbytes,
                        schedule=_kept(one),
                        sent=sent,
                        ranks=ranks,
                        devices=one.groups,
                        meetings=served,
                        group=which,
                    )
                )
        else:
            continue
        seconds[meetings] = taken[group]
    of_message = met.call[messages]
    return Plan(tuple(ways), messages, ends, nbytes[of_message], worths[of_message], seconds)


def _of_all(sent: Pairs, nbytes: int, worth: int) -> Pairs:
    """What a call sends, of what it counts as."""
    return sent if nbytes == worth else replace(sent, nbytes=sent.nbytes * (nbytes / worth))


def _kept(one: Offer) -> Schedule:
    """Its schedule, which does not make its rounds anew for every group unless there are many."""
    if one.sent.messages > _KEPT:
        return one.schedule
    return replace(one.schedule, generate=partial(iter, one.schedule.all_rounds))
