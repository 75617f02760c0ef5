"""Waits: how long a rank waited in a call for the others that take part in it.

What Scalasca calls wait states, "late sender", "late receiver", "wait at N×N", "early reduce"
(Geimer et al., "The Scalasca performance toolset architecture", 2010), is here one rule for
messages and collectives: a rank waits from its own arrival until the last other comes that came
before it left. Who came after it had left was not needed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.timeline.timeline import Phase, Timeline


def last_arrivals(call: NDArray[np.integer], start: Floats, end: Floats) -> Floats:
    """When the last rank came to a call before each rank left it, in seconds, shape (parts,).

    A part is one rank's interval, from ``start`` to ``end``; those with the same number ``call``
    are one call. All are of shape (parts,). On several hosts it is as exact as their clocks.
    """
    parts = len(call)
    leaves = np.repeat([False, True], parts)
    # In order of time, call by call; of one instant arrivals first. So the latest arrival before
    # each row is the greatest row number so far of one, and never of another call: the first row
    # of each call is an arrival.
    order = np.lexsort((leaves, np.concatenate([start, end]), np.concatenate([call, call])))
    arrivals = np.where(leaves[order], 0, np.arange(2 * parts))
    found = np.empty(2 * parts)
    found[order] = np.concatenate([start, end])[order][np.maximum.accumulate(arrivals)]
    return found[parts:]


class Party(NamedTuple):
    """Who makes a call together: those who call it ``what``, of one number of ``group``.

    ``group``: that of each rank, shape (ranks,).
    """

    what: str
    group: Longs


PartyOf = Callable[[str], Party]
"""The party of each rank in the calls that it records under a name."""


def with_waits(timeline: Timeline, party_of: PartyOf | None = None) -> Timeline:
    """The timeline with what its intervals waited for the other ranks of their calls.

    The n-th call that a rank makes in a step with a party is the n-th of all in it; None: all ranks
    make all calls together, by their names, as where they train with data parallelism alone. The
    timeline must hold all ranks.
    """
    rows = timeline.intervals.copy()
    calls = np.flatnonzero(rows["phase"] == Phase.COMMUNICATION)
    keys = ("rank", "step", "name")
    calls = calls[np.lexsort((rows["start"][calls], *(rows[key][calls] for key in keys)))]
    made = rows[calls]
    number = _numbered_within(np.stack([made[key] for key in keys]).astype(np.int64))
    what, group = _parties(timeline, made, party_of)
    both = np.stack([made["step"], what, group, number]).astype(np.int64)
    call = np.unique(both, axis=1, return_inverse=True)[1].ravel()
    rows["ready"][calls] = last_arrivals(call, made["start"], made["end"])
    return replace(timeline, intervals=rows)


def _parties(
    timeline: Timeline, made: NDArray[np.void], party_of: PartyOf | None
) -> tuple[Longs, Longs]:
    """The numbers of what each call is and of its group, both of shape (calls,)."""
    what, group = made["name"].astype(np.int64), np.zeros(len(made), np.int64)
    if party_of is None:
        return what, group
    numbers: dict[str, int] = {}
    for name in np.unique(made["name"]).tolist():
        party, own = party_of(timeline.names[name]), made["name"] == name
        what[own] = numbers.setdefault(party.what, len(numbers))
        group[own] = party.group[made["rank"][own]]
    return what, group


def _numbered_within(keys: Longs) -> Longs:
    """The place of each column among those equal to it, which must be neighbours: shape (n,)."""
    first = np.flatnonzero(np.diff(keys, axis=1, prepend=-1).any(axis=0))
    counts = np.diff(np.append(first, keys.shape[1]))
    return np.arange(keys.shape[1]) - np.repeat(first, counts)
