"""Meetings: who makes calls together, by class of ranks.

A *call* is what ranks do together: a collective of some bytes along some axes, or a message. Ranks
*meet* along the axes of their collectives, and as sender and receiver so many places apart. All
ranks of a class make the same calls, so that what is told here takes a place for each rank and for
each op of a class, never for each op of each rank.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import numpy as np

from steptime.arrays import Ints, Longs
from steptime.errors import UsageError
from steptime.program.program import Collective, Program, Recv, Send

Axes: TypeAlias = tuple[str, ...]
Communication: TypeAlias = Collective | Send | Recv


@dataclass(frozen=True)
class Call:
    """A collective, or a message where ``kind`` is empty, apart from who takes part.

    ``axes``: of a collective, those of its group, in the order of the program; of a message, the
    one along which it goes ``by`` places.
    """

    kind: str
    axes: Axes
    nbytes: int
    algorithm: str = ""
    root: int = 0
    by: int = 0


@dataclass(frozen=True, eq=False)
class Role:
    """How ranks take part in a meeting: as members of a group, as senders or as receivers.

    ``group``: the group that each rank is in, and ``place``: which member of it, both of shape
    (ranks,). ``parts``: by class, which of its calls these are, in the order of the meeting's.
    """

    group: Ints
    place: Ints
    parts: Mapping[int, Longs]


@dataclass(frozen=True, eq=False)
class Meeting:
    """Ranks that meet: the groups along some axes or, ``ordered``, senders and receivers.

    ``groups``: the ranks of each, shape (groups, members). ``calls``: by the class of a group's
    first member, the numbers of the calls that the group makes, in their order. A class that makes
    none is left out.
    """

    groups: Ints
    ordered: bool
    calls: Mapping[int, Ints]
    roles: tuple[Role, ...]

    def counts(self, class_of: Ints) -> Longs:
        """How many calls each group makes, shape (groups,), by the class of each rank."""
        of_class = np.zeros(int(class_of.max(initial=0)) + 1, np.int64)
        for kind, calls in self.calls.items():
            of_class[kind] = calls.size
        return np.asarray(of_class[class_of[self.groups[:, 0]]])


class Numbers(dict[Call, int]):
    """The number of each call seen so far."""

    def of(self, call: Call) -> int:
        """The number of a call, a new one where it has not been seen."""
        return self.setdefault(call, len(self))


def communications(program: Program) -> dict[int, list[Communication]]:
    """The parts of calls of each class of ranks; a class that no rank is of is left out."""
    return {
        kind: [op for op in program.lists[kind] if isinstance(op, Collective | Send | Recv)]
        for kind in np.unique(program.class_of).tolist()
    }


def meetings_of_collectives(
    program: Program, communicating: Mapping[int, Sequence[Communication]], numbers: Numbers
) -> list[Meeting]:
    """The meetings along the axes of collectives, in the order in which ops name them.

    Raises UsageError where ranks of a group call other collectives or one of them calls more.
    """
    named: dict[Axes, Axes] = {}  # by the axes as an op names them, those of its group in order
    made: dict[Axes, dict[int, list[tuple[int, Collective]]]] = {}
    for kind, ops in communicating.items():
        for part, op in enumerate(ops):
            if isinstance(op, Collective):
                if op.group not in named:
                    named[op.group] = tuple(axis for axis in program.axes if axis in op.group)
                made.setdefault(named[op.group], {}).setdefault(kind, []).append((part, op))
    return [_along(program, axes, of_axes, numbers) for axes, of_axes in made.items()]


def _along(
    program: Program,
    axes: Axes,
    made: Mapping[int, Sequence[tuple[int, Collective]]],
    numbers: Numbers,
) -> Meeting:
    """The meeting along ``axes``; ``made``: by class the collectives there, with their parts."""
    groups = program.groups(axes)
    known: dict[tuple[str, int, str, int], int] = {}
    calls: dict[int, list[int]] = {}
    for kind, sequence in made.items():
        calls[kind] = []
        for _, op in sequence:
            key = op.kind, op.nbytes, op.algorithm, op.root
            if key not in known:
                call = Call(op.kind, axes, op.nbytes, op.algorithm, op.root)
                known[key] = numbers.of(call)
            calls[kind].append(known[key])
    _check_same_calls(program, axes, groups, calls, tuple(numbers))
    group_of, place_of = _positions(groups)
    firsts = np.unique(program.class_of[groups[:, 0]]).tolist()
    return Meeting(
        groups,
        ordered=False,
        calls={kind: np.array(calls[kind], np.int32) for kind in firsts if kind in calls},
        roles=(Role(group_of, place_of, {kind: _parts(made[kind]) for kind in made}),),
    )


def _parts(sequence: Sequence[tuple[int, Communication]]) -> Longs:
    return np.array([part for part, _ in sequence], np.int64)


def _positions(groups: Ints) -> tuple[Ints, Ints]:
    """The group that each rank is in and its place there, both of shape (ranks,)."""
    group_of, place_of = np.empty(groups.size, np.int32), np.empty(groups.size, np.int32)
    group_of[groups] = np.arange(groups.shape[0], dtype=np.int32)[:, None]
    place_of[groups] = np.arange(groups.shape[1], dtype=np.int32)
    return group_of, place_of


def _check_same_calls(
    program: Program,
    axes: Axes,
    groups: Ints,
    calls: Mapping[int, Sequence[int]],
    named: Sequence[Call],
) -> None:
    """Raise UsageError where two ranks of a group do not call the same in the same order.

    ``calls``: by class the numbers of what it calls, in ``named``.
    """
    known: dict[tuple[int, ...], int] = {}
    number_of = np.zeros(len(program.lists), np.int32)
    for kind in np.unique(program.class_of).tolist():
        number_of[kind] = known.setdefault(tuple(calls.get(kind, ())), len(known))
    if len(known) == 1:
        return
    sequence = number_of[program.class_of[groups]]
    odd = sequence != sequence[:, :1]
    if not odd.any():
        return
    group, member = np.argwhere(odd)[0]
    ranks = groups[group, [0, member]].tolist()
    pairs = zip_longest(*(calls.get(int(program.class_of[rank]), ()) for rank in ranks))
    number, (one, other) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    raise UsageError(
        f"along {' and '.join(axes)} rank {ranks[0]} of {program.name} calls "
        f"{_described(named, one)} as collective number {number + 1} and rank {ranks[1]}, of the "
        f"same group, {_described(named, other)}: let them call the same in the same order"
    )


def _described(named: Sequence[Call], number: int | None) -> str:
    if number is None:
        return "nothing"
    call = named[number]
    name = f" {call.algorithm}" if call.algorithm else ""
    return f"{call.kind}{name} of {call.nbytes} bytes with the root {call.root}"


class Shift(NamedTuple):
    """How far a message goes along an axis that wraps around; one to the rank itself along none."""

    axis: str
    by: int


_OfClass: TypeAlias = list[tuple[int, Send | Recv]]
"""Sends or Recvs of a class with their parts, in the order in which the ends of messages match."""

_Ends: TypeAlias = dict[Shift, dict[int, _OfClass]]
"""All Sends or all Recvs: by how far their messages go, then by class."""


def meetings_of_messages(
    program: Program, communicating: Mapping[int, Sequence[Communication]], numbers: Numbers
) -> list[Meeting]:
    """The meetings of senders and receivers, one for each distance along an axis.

    Messages of one sender, receiver and tag do not overtake each other: the n-th Send among them
    is the n-th Recv.

    Raises UsageError where a Send has no Recv, a Recv no Send, or the two disagree on the bytes.
    """
    sends, recvs = (_ends(program, communicating, kind) for kind in (Send, Recv))
    shifts = list(dict.fromkeys([*sends, *recvs]))
    receiver = {shift: _receiver(program, shift) for shift in shifts}
    _check_ends(program, sends, recvs, receiver)
    number_of = _message_numbers(communicating, numbers)
    ranks = np.arange(program.ranks, dtype=np.int32)
    sending, receiving = np.zeros(program.ranks, np.int32), np.ones(program.ranks, np.int32)
    found = []
    for shift in shifts:
        sender = np.empty_like(ranks)
        sender[receiver[shift]] = ranks
        made, met = sends.get(shift, {}), recvs.get(shift, {})
        calls = {
            kind: np.array([number_of[op.axis, op.by, op.nbytes] for _, op in ends], np.int32)
            for kind, ends in made.items()
        }
        roles = (
            Role(ranks, sending, {kind: _parts(ends) for kind, ends in made.items()}),
            Role(sender, receiving, {kind: _parts(ends) for kind, ends in met.items()}),
        )
        groups = np.stack([ranks, receiver[shift]], axis=1)
        found.append(Meeting(groups, ordered=True, calls=calls, roles=roles))
    return found


def _ends(
    program: Program,
    communicating: Mapping[int, Sequence[Communication]],
    which: type[Send] | type[Recv],
) -> _Ends:
    """All Sends or all Recvs; a Recv by how far its message goes, against its own direction."""
    sign = 1 if which is Send else -1
    found: _Ends = {}
    for kind, ops in communicating.items():
        for part, op in enumerate(ops):
            if isinstance(op, which):
                by = sign * op.by % program.axes[op.axis]
                shift = Shift(op.axis, by) if by else Shift("", 0)
                found.setdefault(shift, {}).setdefault(kind, []).append((part, op))
    for of_class in found.values():
        for ends in of_class.values():
            ends.sort(key=lambda end: end[1].tag)
    return found


def _receiver(program: Program, shift: Shift) -> Ints:
    """The rank to which each sends, shape (ranks,)."""
    if not shift.by:
        return np.arange(program.ranks, dtype=np.int32)
    return program.peer(shift.axis, shift.by)


def _message_numbers(
    communicating: Mapping[int, Sequence[Communication]], numbers: Numbers
) -> dict[tuple[str, int, int], int]:
    """The number of the call of each axis, distance and size, those of one distance together."""
    sizes: dict[tuple[str, int], set[int]] = {}
    for ops in communicating.values():
        for op in ops:
            if isinstance(op, Send):
                sizes.setdefault((op.axis, op.by), set()).add(op.nbytes)
    return {
        (axis, by, nbytes): numbers.of(Call("", (axis,), nbytes, by=by))
        for (axis, by), of_shift in sizes.items()
        for nbytes in sorted(of_shift)
    }


def _check_ends(
    program: Program, sends: _Ends, recvs: _Ends, receiver: Mapping[Shift, Ints]
) -> None:
    """Raise UsageError where the ends of messages do not match; it names the first such ranks."""
    unmatched: list[tuple[int, int, int, str]] = []
    unequal: list[tuple[int, int, int, str]] = []
    for shift, to in receiver.items():
        for src, one, other in _class_pairs(
            program, to, sends.get(shift, {}), recvs.get(shift, {})
        ):
            dst = int(to[src])
            sent, met = Counter(op.tag for _, op in one), Counter(op.tag for _, op in other)
            if sent != met:
                tag = min((sent - met) + (met - sent))
                words = (
                    f"rank {src} of {program.name} sends {sent[tag]} messages with the tag {tag} "
                    f"to rank {dst}, which receives {met[tag]}: give each Send its Recv"
                )
                unmatched.append((src, dst, tag, words))
                continue
            pairs = ((a, b) for (_, a), (_, b) in zip(one, other, strict=True))
            for a, b in pairs:
                if a.nbytes != b.nbytes:
                    words = (
                        f"rank {src} of {program.name} sends {a.nbytes} bytes to rank {dst} with "
                        f"the tag {a.tag}, which expects {b.nbytes}"
                    )
                    unequal.append((src, dst, a.tag, words))
                    break
    for wrong in (unmatched, unequal):
        if wrong:
            raise UsageError(min(wrong)[-1])


def _class_pairs(
    program: Program,
    receiver: Ints,
    sends: Mapping[int, _OfClass],
    recvs: Mapping[int, _OfClass],
) -> Iterator[tuple[int, _OfClass, _OfClass]]:
    """For each pair of classes the first rank that would send, and the ends of both."""
    classes = len(program.lists)
    sending, receiving = np.zeros(classes, np.bool_), np.zeros(classes, np.bool_)
    sending[list(sends)] = receiving[list(recvs)] = True
    there = program.class_of[receiver]
    ranks = np.flatnonzero(sending[program.class_of] | receiving[there])
    pairs = program.class_of[ranks].astype(np.int64) * classes + there[ranks]
    kinds, first = np.unique(pairs, return_index=True)
    for kind, src in zip(kinds.tolist(), ranks[first].tolist(), strict=True):
        yield src, sends.get(kind // classes, []), recvs.get(kind % classes, [])
