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

from steptime.arrays import Floats, Ints, Longs
from steptime.program import Matching
from steptime.program.meetings import Meeting
from steptime.simulate.queues import Queues
from steptime.simulate.recurrence import Prices

_NO_CALL = 0  # the kind of a group that makes no call


@dataclass(frozen=True, eq=False)
class EquivalentRanks:
    """A reduced program with one rank of each kind, and what the instances of its calls take.

    ``of``: the kind of each rank, shape (ranks,). ``queues`` and ``prices``: of that program.
    """

    of: Ints
    queues: Queues
    prices: Prices


def kinds_of_ranks(
    queues: Queues, matching: Matching, seconds: Sequence[Floats]
) -> EquivalentRanks:
    """The kinds of ranks where calls take ``seconds``: of each, shape (groups that make it,)."""
    speeds, speed = np.unique(queues.speed, return_inverse=True)
    kind = _numbered(queues.class_of.astype(np.int64) * speeds.size + speed)
    price_of = _prices_of_groups(matching, seconds)
    while True:
        groups = [
            _kinds_of_groups(kind, one, price)
            for one, price in zip(matching.meetings, price_of, strict=True)
        ]
        finer = kind
        for one, of_group in zip(matching.meetings, groups, strict=True):
            for role in one.roles:
                finer = _both(finer, of_group[role.group])
        if finer.max() == kind.max():
            break
        kind = finer
    return _quotient(kind, groups, queues, matching, seconds)


def _prices_of_groups(matching: Matching, seconds: Sequence[Floats]) -> list[Ints]:
    """For each meeting the same number for groups whose calls take as long: shape (groups,).

    It is _NO_CALL where a group makes none.
    """
    found = [np.zeros(len(one.groups), np.int32) for one in matching.meetings]
    for made, of_call in zip(matching.callers, seconds, strict=True):
        price = np.full(found[made.meeting].size, _NO_CALL, np.int32)
        price[made.which] = np.unique(of_call, return_inverse=True)[1] + 1
        found[made.meeting] = _both(found[made.meeting], price)
    for one, prices in zip(matching.meetings, found, strict=True):
        counts = one.counts(matching.class_of)
        prices[:] = np.where(counts > 0, prices + 1, _NO_CALL)
    return found


def _kinds_of_groups(kind: Ints, meeting: Meeting, price: Ints) -> Ints:
    """A number for each group: the same for the same kinds of ranks and the same price."""
    members = kind[meeting.groups]
    if (members == members[:, :1]).all():
        found = members[:, 0]
    else:
        found = _numbered_rows(members if meeting.ordered else np.sort(members, axis=1))
    return np.where(price == _NO_CALL, _NO_CALL, _both(found, price) + 1)


def _both(one: Ints, other: Ints) -> Ints:
    """Number the distinct pairs of two numbers, shape (n,)."""
    return _numbered(one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other)


def _numbered(keys: Longs) -> Ints:
    """Number the distinct keys, at least 0, in ascending order, shape (n,)."""
    most = int(keys.max(initial=0)) + 1
    if most > 4 * keys.size:
        return np.asarray(np.unique(keys, return_inverse=True)[1], np.int32)
    there = np.zeros(most, np.bool_)
    there[keys] = True
    return np.asarray((np.cumsum(there) - 1)[keys], np.int32)


def _numbered_rows(rows: NDArray[np.integer]) -> Ints:
    """Number the distinct rows, shape (rows,)."""
    rows = np.ascontiguousarray(rows, np.int32)
    whole = rows.view(f"V{rows.itemsize * rows.shape[1]}").reshape(-1)
    return np.asarray(np.unique(whole, return_inverse=True)[1], np.int32)


def _quotient(
    kind: Ints,
    groups: Sequence[Ints],
    queues: Queues,
    matching: Matching,
    seconds: Sequence[Floats],
) -> EquivalentRanks:
    """The program of one rank a kind, with the instances of one group of each kind of groups."""
    ranks = np.unique(kind, return_index=True)[1]
    class_of = queues.class_of[ranks]
    parts_of = np.concatenate([[0], np.cumsum(matching.sizes[class_of])])
    instance = np.empty(parts_of[-1], np.int32)
    takes: list[Floats] = []
    used = 0
    for meeting, of_group in zip(matching.meetings, groups, strict=True):
        examples = np.unique(of_group, return_index=True)[1]
        firsts = matching.class_of[meeting.groups[examples, 0]]
        starts = np.zeros(int(of_group.max()) + 1, np.int64)  # of each kind its first instance
        for of_class, calls in meeting.calls.items():
            own = examples[firsts == of_class]
            starts[of_group[own]] = used + np.arange(own.size) * calls.size
            takes.append(_seconds_of_groups(matching, own, calls, seconds).ravel())
            used += own.size * calls.size
        for role in meeting.roles:
            for of_class, parts in role.parts.items():
                places = np.flatnonzero(class_of == of_class)
                begin = starts[of_group[role.group[ranks[places]]]]
                own_parts = parts_of[places][:, None] + parts
                instance[own_parts] = begin[:, None] + np.arange(parts.size)
    rank_ops = np.diff(queues.rank_ops_of)[ranks]
    return EquivalentRanks(
        of=kind,
        queues=queues._replace(
            class_of=class_of,
            speed=queues.speed[ranks],
            rank_ops_of=np.concatenate([[0], np.cumsum(rank_ops)]),
        ),
        prices=Prices(
            missing=np.bincount(instance, minlength=used),
            parts_of=parts_of,
            instance=instance,
            seconds=np.concatenate([np.zeros(0), *takes]),
        ),
    )


def _seconds_of_groups(
    matching: Matching, groups: Longs, calls: Ints, seconds: Sequence[Floats]
) -> Floats:
    """What some groups' calls take, all the same and in their order, shape (groups, calls)."""
    distinct, which = np.unique(calls, return_inverse=True)
    takes = [
        seconds[call][np.searchsorted(matching.callers[call].which, groups)]
        for call in distinct.tolist()
    ]
    return np.stack(takes, axis=1)[:, which]
