"""Ranks that fare alike: of those at fidelity ``collective``, one is enough.

Two ranks fare alike when they do the same on devices as fast, and come together at the same prices
with ranks that fare alike. The coarsest such division of the ranks is found as partition refinement
finds it (Paige and Tarjan 1987): divide by what is known, look at whom each meets, divide further,
until nothing changes. It is exact: a slow device or an odd placement makes further kinds of ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints
from steptime.program import Instances, Matching
from steptime.simulate.queues import Queues
from steptime.simulate.recurrence import Prices


@dataclass(frozen=True, eq=False)
class Kinds:
    """One rank of each kind, and what all its meetings take.

    ``of``: the kind of each rank, shape (ranks,). ``queues`` and ``prices`` are those of programs
    with one rank a kind.
    """

    of: Ints
    queues: Queues
    prices: Prices


def kinds_of_ranks(queues: Queues, met: Matching, seconds: Floats) -> Kinds:
    """The kinds of ranks where each meeting takes so many seconds, shape (meetings,)."""
    speeds, speed = np.unique(queues.speed, return_inverse=True)
    kind = _numbered(queues.class_of * speeds.size + speed)
    price_of = [_price_of_group(one, seconds) for one in met.instances]
    while True:
        groups = [
            _kinds_of_groups(kind, one, price)
            for one, price in zip(met.instances, price_of, strict=True)
        ]
        finer = _numbered(_signatures(kind, met.instances, groups))
        if finer.max() == kind.max():
            break
        kind = finer
    return _quotient(kind, groups, queues, met, seconds)


def _price_of_group(instances: Instances, seconds: Floats) -> Floats:
    """What each group's meetings take, shape (groups,)."""
    price = np.empty(len(instances.groups))
    price[instances.group] = seconds[instances.meetings]
    return price


def _kinds_of_groups(kind: Ints, instances: Instances, price: Floats) -> Ints:
    """A number for each group that tells which kinds meet there and at which price."""
    members = kind[instances.groups]
    if not instances.ordered:
        members = np.sort(members, axis=1)
    known = np.unique(price, return_inverse=True)[1]
    return _numbered(np.column_stack([members, known]))


def _signatures(kind: Ints, instances: Sequence[Instances], groups: Sequence[Ints]) -> Ints:
    """What is known of each rank: its kind, and the kinds of the groups that it is in."""
    columns = [kind]
    for one, of_group in zip(instances, groups, strict=True):
        for places in one.groups.T[:, None] if one.ordered else [one.groups.T]:
            column = np.full(kind.size, -1, np.int32)
            column[places] = of_group
            columns.append(column)
    return np.column_stack(columns)


def _numbered(rows: NDArray[np.integer]) -> Ints:
    """The number of each row among those that differ, shape (rows,)."""
    if rows.ndim > 1:
        rows = np.ascontiguousarray(rows, np.int32)
        rows = rows.view(f"V{rows.itemsize * rows.shape[1]}").reshape(-1)
    return np.asarray(np.unique(rows, return_inverse=True)[1], np.int32)


def _quotient(
    kind: Ints, groups: Sequence[Ints], queues: Queues, met: Matching, seconds: Floats
) -> Kinds:
    """Programs of one rank a kind, whose meetings are those of one group a kind of group."""
    ranks = np.unique(kind, return_index=True)[1]
    sizes = np.diff(met.parts_of)[ranks]
    parts_of = np.concatenate([[0], np.cumsum(sizes)])
    parts = np.arange(parts_of[-1]) + np.repeat(met.parts_of[ranks] - parts_of[:-1], sizes)
    same = np.empty(met.call.size, np.int64)  # a number that meetings of one kind share
    used = 0
    for one, of_group in zip(met.instances, groups, strict=True):
        times = np.bincount(one.group)
        order = np.argsort(one.group, kind="stable")
        number = np.empty(order.size, np.int64)  # of each meeting, among those of its group
        number[order] = np.arange(order.size) - np.repeat(np.cumsum(times) - times, times)
        same[one.meetings] = used + of_group[one.group] * times.max() + number
        used += (int(of_group.max()) + 1) * int(times.max())
    meetings = met.meeting[parts]
    _, example, meeting = np.unique(same[meetings], return_index=True, return_inverse=True)
    instances = np.diff(queues.instances_of)[ranks]
    return Kinds(
        of=kind,
        queues=queues._replace(
            class_of=queues.class_of[ranks],
            speed=queues.speed[ranks],
            instances_of=np.concatenate([[0], np.cumsum(instances)]),
        ),
        prices=Prices(
            missing=np.bincount(meeting, minlength=example.size),
            parts_of=parts_of,
            meeting=meeting.astype(np.int32),
            seconds=seconds[meetings[example]],
        ),
    )
