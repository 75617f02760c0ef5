"""Equivalent ranks take the same times in a step: fidelity ``collective`` simulates one a kind.

Two ranks are equivalent when they run the same ops on devices of the same speed, and their calls
take as long and join them with equivalent ranks. The coarsest such partition of the ranks is found
by partition refinement (Paige and Tarjan 1987): divide by what each rank runs, look at the kinds of
ranks in each group that it is in, divide further, until nothing changes. It is exact: a slow device
or an odd placement makes further kinds of ranks.
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
class EquivalentRanks:
    """A reduced program with one rank of each kind, and what the instances of its calls take.

    ``of``: the kind of each rank, shape (ranks,). ``queues`` and ``prices``: of that program.
    """

    of: Ints
    queues: Queues
    prices: Prices


def kinds_of_ranks(queues: Queues, matching: Matching, seconds: Floats) -> EquivalentRanks:
    """The kinds of ranks where each instance of a call takes ``seconds``, shape (instances,)."""
    speeds, speed = np.unique(queues.speed, return_inverse=True)
    kind = _numbered(queues.class_of * speeds.size + speed)
    price_of = [_price_of_group(one, seconds) for one in matching.instances]
    while True:
        groups = [
            _kinds_of_groups(kind, one, price)
            for one, price in zip(matching.instances, price_of, strict=True)
        ]
        finer = _numbered(_signatures(kind, matching.instances, groups))
        if finer.max() == kind.max():
            break
        kind = finer
    return _quotient(kind, groups, queues, matching, seconds)


def _price_of_group(instances: Instances, seconds: Floats) -> Floats:
    """What the instances of each group take, in seconds, shape (groups,)."""
    price = np.empty(len(instances.groups))
    price[instances.group] = seconds[instances.numbers]
    return price


def _kinds_of_groups(kind: Ints, instances: Instances, price: Floats) -> Ints:
    """A number for each group: the same for the same kinds of ranks and the same price."""
    members = kind[instances.groups]
    if not instances.ordered:
        members = np.sort(members, axis=1)
    known = np.unique(price, return_inverse=True)[1]
    return _numbered(np.column_stack([members, known]))


def _signatures(kind: Ints, instances: Sequence[Instances], groups: Sequence[Ints]) -> Ints:
    """For each rank a row of its kind and the kinds of its groups."""
    columns = [kind]
    for one, of_group in zip(instances, groups, strict=True):
        for places in one.groups.T[:, None] if one.ordered else [one.groups.T]:
            column = np.full(kind.size, -1, np.int32)
            column[places] = of_group
            columns.append(column)
    return np.column_stack(columns)


def _numbered(rows: NDArray[np.integer]) -> Ints:
    """Number the distinct rows, shape (rows,)."""
    if rows.ndim > 1:
        rows = np.ascontiguousarray(rows, np.int32)
        rows = rows.view(f"V{rows.itemsize * rows.shape[1]}").reshape(-1)
    return np.asarray(np.unique(rows, return_inverse=True)[1], np.int32)


def _quotient(
    kind: Ints, groups: Sequence[Ints], queues: Queues, matching: Matching, seconds: Floats
) -> EquivalentRanks:
    """The program of one rank a kind, with the instances of one group of each kind of groups."""
    ranks = np.unique(kind, return_index=True)[1]
    sizes = np.diff(matching.parts_of)[ranks]
    parts_of = np.concatenate([[0], np.cumsum(sizes)])
    parts = np.arange(parts_of[-1]) + np.repeat(matching.parts_of[ranks] - parts_of[:-1], sizes)
    same = np.empty(matching.call.size, np.int64)  # a number that instances of one kind share
    used = 0
    for one, of_group in zip(matching.instances, groups, strict=True):
        times = np.bincount(one.group)
        order = np.argsort(one.group, kind="stable")
        number = np.empty(order.size, np.int64)  # of each instance, among those of its group
        number[order] = np.arange(order.size) - np.repeat(np.cumsum(times) - times, times)
        same[one.numbers] = used + of_group[one.group] * times.max() + number
        used += (int(of_group.max()) + 1) * int(times.max())
    instances = matching.instance[parts]
    _, example, instance = np.unique(same[instances], return_index=True, return_inverse=True)
    rank_ops = np.diff(queues.rank_ops_of)[ranks]
    return EquivalentRanks(
        of=kind,
        queues=queues._replace(
            class_of=queues.class_of[ranks],
            speed=queues.speed[ranks],
            rank_ops_of=np.concatenate([[0], np.cumsum(rank_ops)]),
        ),
        prices=Prices(
            missing=np.bincount(instance, minlength=example.size),
            parts_of=parts_of,
            instance=instance.astype(np.int32),
            seconds=seconds[instances[example]],
        ),
    )
