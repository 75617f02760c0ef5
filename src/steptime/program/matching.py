"""Matching: which ops of which ranks are the same collective or message.

A *call* is what ranks do together: a collective of some bytes along some axes, or a message. Each
time that the ranks of one group make it is an *instance* of the call. The *matching* says which ops
of which ranks meet in each instance. It follows from the order of the ops alone, as in MPI and
NCCL: collectives of one group match in the order in which its members make them, messages between
two ranks in the order in which they are sent.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from math import prod

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints, Longs
from steptime.errors import UsageError
from steptime.program.program import Collective, Program, Recv, Send

Axes = tuple[str, ...]


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Matching:
    """All collectives and messages of one step.

    A *part* is one rank's op in an instance. A rank's parts are in the order of its list:
    ``parts_of``, shape (ranks + 1,), says where those of each rank begin, ``instance`` to which
    instance a part belongs and ``place`` which member its rank is there, both of shape (parts,).
    ``call``, shape (instances,), is the index in ``calls`` of what is called. ``members``, shape
    (parts,), holds the ranks of each instance from ``first``, shape (instances + 1,), on: in the
    order of the group; of a message, the sender and the receiver.
    """

    calls: tuple[Call, ...]
    call: Ints
    first: Longs
    members: Ints
    parts_of: Longs
    instance: Ints
    place: Ints

    @cached_property
    def instances(self) -> tuple["Instances", ...]:
        """The instances of each of ``calls``, in their order."""
        order = np.argsort(self.call, kind="stable").astype(np.int32)
        bounds = np.searchsorted(self.call[order], np.arange(len(self.calls) + 1))
        return tuple(
            self._instances(call, np.sort(order[first:last]))
            for call, (first, last) in zip(self.calls, pairwise(bounds.tolist()), strict=True)
        )

    def _instances(self, call: Call, instances: Ints) -> "Instances":
        begins = self.first[instances]
        size = int((self.first[instances + 1] - begins).max(initial=0))
        # Two groups along the same axes, and two messages, differ in their first or second member.
        keys = self.members[begins].astype(np.int64)
        if size > 1:
            keys = keys << 32 | self.members[begins + 1]
        _, example, group = np.unique(keys, return_index=True, return_inverse=True)
        groups = self.members[begins[example][:, None] + np.arange(size)]
        return Instances(instances, groups, group.astype(np.int32), ordered=not call.kind)


@dataclass(frozen=True, eq=False)
class Instances:
    """All instances of one call.

    ``numbers``: those of the instances, in ascending order, shape (n,). ``groups``: the ranks that
    make the call together, shape (groups, members). ``group``: the group that makes each instance,
    shape (n,). ``ordered``: whether the order of members matters, as in a message.
    """

    numbers: Ints
    groups: Ints
    group: Ints
    ordered: bool


def match_calls(program: Program) -> Matching:
    """The matching of ``program``, which must have passed ``check``.

    The n-th collective of a rank along the same axes matches the n-th of every other member of its
    group; Send and Recv match as Send says.

    Raises UsageError where ranks of a group call other collectives or one of them calls more, and
    where a Send has no Recv, a Recv no Send, or the two disagree on the bytes.
    """
    communicating = [
        [op for op in ops if isinstance(op, Collective | Send | Recv)] for ops in program.lists
    ]
    sizes = np.array([len(ops) for ops in communicating], np.int64)
    parts_of = np.concatenate([[0], np.cumsum(sizes[program.class_of])])
    draft = _Draft(
        program=program,
        communicating=communicating,
        parts_of=parts_of,
        instance=np.empty(parts_of[-1], np.int32),
        place=np.empty(parts_of[-1], np.int32),
        numbers={},
    )
    collectives = _collectives(draft)
    call = np.concatenate([collectives, _messages(draft, first=collectives.size)])
    instance, place = draft.instance, draft.place
    members_of = np.array(
        [prod(program.axes[a] for a in one.axes) if one.kind else 2 for one in draft.numbers],
        np.int64,
    )
    first = np.concatenate([[0], np.cumsum(members_of[call])])
    members = np.empty(parts_of[-1], np.int32)
    for rank in range(program.ranks):
        own = slice(parts_of[rank], parts_of[rank + 1])
        members[first[instance[own]] + place[own]] = rank
    return Matching(
        calls=tuple(draft.numbers),
        call=call,
        first=first,
        members=members,
        parts_of=parts_of,
        instance=instance,
        place=place,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Draft:
    """A matching in the making.

    ``communicating``: the ops of each class of ranks that are parts of calls. ``parts_of``,
    ``instance``, ``place``: as in Matching, the last two still to be filled in. ``numbers``: the
    number of each call seen so far.
    """

    program: Program
    communicating: Sequence[Sequence[Collective | Send | Recv]]
    parts_of: Longs
    instance: Ints
    place: Ints
    numbers: dict[Call, int]

    def number_of(self, call: Call) -> int:
        """The number of a call, a new one where it has not been seen."""
        return self.numbers.setdefault(call, len(self.numbers))


def _collectives(draft: _Draft) -> Ints:
    """Number the instances of collectives from 0 on and fill in their parts.

    Returns the number of each instance's call, shape (instances,).
    """
    program, communicating = draft.program, draft.communicating
    numbers: list[Ints] = []
    total = 0
    keys = [[_axes(program, op) for op in ops] for ops in communicating]
    for axes in dict.fromkeys(axes for of_class in keys for axes in of_class if axes is not None):
        groups = program.groups(axes)
        sequences = [
            [
                (slot, Call(op.kind, axes, op.nbytes, op.algorithm, op.root))
                for slot, (op, key) in enumerate(zip(ops, of_class, strict=True))
                if key == axes and isinstance(op, Collective)
            ]
            for ops, of_class in zip(communicating, keys, strict=True)
        ]
        calls = [[call for _, call in sequence] for sequence in sequences]
        _check_same_calls(program, axes, groups, calls)
        # All members of a group call the same, so the n-th call of each is the same instance. The
        # first member's class tells how many there are; instances are numbered group by group.
        class_of = program.class_of[groups[:, 0]]
        counts = np.array([len(sequence) for sequence in sequences], np.int64)[class_of]
        starts = total + np.cumsum(counts) - counts  # (groups,)
        total += int(counts.sum())
        group_of, place_of = _positions(groups)
        for number, sequence in enumerate(sequences):
            own = np.flatnonzero(program.class_of == number)
            slots = np.array([slot for slot, _ in sequence], np.int64)
            parts = draft.parts_of[own][:, None] + slots
            draft.instance[parts] = starts[group_of[own]][:, None] + np.arange(slots.size)
            draft.place[parts] = place_of[own][:, None]
        indices = {
            number: np.array([draft.number_of(call) for call in calls[number]], np.int32)
            for number in np.unique(class_of).tolist()
        }
        numbers += [indices[number] for number in class_of.tolist()]
    return np.concatenate([np.empty(0, np.int32), *numbers])


def _axes(program: Program, op: Collective | Send | Recv) -> Axes | None:
    """The axes of a collective in the order of the program: they alone make its group."""
    if not isinstance(op, Collective):
        return None
    return tuple(axis for axis in program.axes if axis in op.group)


def _positions(groups: Ints) -> tuple[Ints, Ints]:
    """The group that each rank is in and its place there, both of shape (ranks,)."""
    group_of, place_of = np.empty(groups.size, np.int32), np.empty(groups.size, np.int32)
    group_of[groups] = np.arange(groups.shape[0], dtype=np.int32)[:, None]
    place_of[groups] = np.arange(groups.shape[1], dtype=np.int32)
    return group_of, place_of


def _check_same_calls(
    program: Program, axes: Axes, groups: Ints, calls: Sequence[Sequence[Call]]
) -> None:
    """Raise UsageError where two ranks of a group do not call the same in the same order."""
    known: dict[tuple[Call, ...], int] = {}
    number_of = np.array([known.setdefault(tuple(one), len(known)) for one in calls])
    sequence = number_of[program.class_of[groups]]
    odd = sequence != sequence[:, :1]
    if not odd.any():
        return
    group, member = np.argwhere(odd)[0]
    ranks = groups[group, [0, member]].tolist()
    pairs = zip_longest(*(calls[program.class_of[rank]] for rank in ranks))
    number, (one, other) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    raise UsageError(
        f"along {' and '.join(axes)} rank {ranks[0]} of {program.name} calls {_described(one)} as "
        f"collective number {number + 1} and rank {ranks[1]}, of the same group, "
        f"{_described(other)}: let them call the same in the same order"
    )


def _described(call: Call | None) -> str:
    if call is None:
        return "nothing"
    name = f" {call.algorithm}" if call.algorithm else ""
    return f"{call.kind}{name} of {call.nbytes} bytes with the root {call.root}"


def _messages(draft: _Draft, *, first: int) -> Ints:
    """Number the messages from ``first`` on and fill in their parts.

    Returns the number of each message's call, shape (messages,).
    """
    program = draft.program
    shifts: dict[tuple[str, int], int] = {}
    sends, recvs = _ends(draft, Send, shifts), _ends(draft, Recv, shifts)
    # Both ends are sorted by sender, receiver, tag and place in the list. Messages of one sender,
    # receiver and tag do not overtake each other, so the n-th Send among them is the n-th Recv:
    # where there are as many of both for each, row by row the two ends are those of one message.
    keys = ("src", "dst", "tag")
    if sends.size != recvs.size or any((sends[key] != recvs[key]).any() for key in keys):
        raise UsageError(_unmatched(program, sends, recvs))
    differ = sends["nbytes"] != recvs["nbytes"]
    if differ.any():
        send, recv = sends[differ][0], recvs[differ][0]
        raise UsageError(
            f"rank {send['src']} of {program.name} sends {send['nbytes']} bytes to rank "
            f"{send['dst']} with the tag {send['tag']}, which expects {recv['nbytes']}"
        )
    numbers = first + np.arange(sends.size, dtype=np.int32)
    for end, which in ((0, sends), (1, recvs)):
        draft.instance[which["part"]] = numbers
        draft.place[which["part"]] = end
    sizes, size_of = np.unique(sends["nbytes"], return_inverse=True)
    kinds, kind_of = np.unique(sends["shift"] * sizes.size + size_of, return_inverse=True)
    named, calls = list(shifts), []
    for kind in kinds.tolist():
        (axis, by), nbytes = named[kind // sizes.size], sizes[kind % sizes.size]
        call = Call("", (axis,), int(nbytes), by=by)
        calls.append(draft.number_of(call))
    return np.array(calls, np.int32)[kind_of]


_END = np.dtype(
    [
        ("src", np.int32),
        ("dst", np.int32),
        ("tag", np.int64),
        ("part", np.int64),
        ("nbytes", np.int64),
        ("shift", np.int32),  # the axis and by how many places, by number
    ]
)


def _ends(
    draft: _Draft, kind: type[Send] | type[Recv], shifts: dict[tuple[str, int], int]
) -> NDArray[np.void]:
    """All Sends or Recvs, dtype _END, by sender, receiver, tag and place in the list.

    ``shifts``: the number of each axis and distance; new ones are added.
    """
    program = draft.program
    found = [np.empty(0, _END)]
    peers: dict[tuple[str, int], Ints] = {}
    for number, ops in enumerate(draft.communicating):
        own = np.flatnonzero(program.class_of == number)
        for slot, op in enumerate(ops):
            if isinstance(op, kind):
                shift = (op.axis, op.by)
                if shift not in peers:
                    peers[shift] = program.peer(*shift)
                ends = np.empty(own.size, _END)
                peer = peers[shift][own]
                ends["src"], ends["dst"] = (own, peer) if kind is Send else (peer, own)
                ends["tag"], ends["nbytes"] = op.tag, op.nbytes
                ends["shift"] = shifts.setdefault(shift, len(shifts))
                ends["part"] = draft.parts_of[own] + slot
                found.append(ends)
    every = np.concatenate(found)
    return every[np.lexsort([every[key] for key in ("part", "tag", "dst", "src")])]


def _unmatched(program: Program, sends: NDArray[np.void], recvs: NDArray[np.void]) -> str:
    keys = ["src", "dst", "tag"]
    sent, received = (Counter(ends[keys].tolist()) for ends in (sends, recvs))
    (src, dst, tag), _ = min(((sent - received) + (received - sent)).items())
    return (
        f"rank {src} of {program.name} sends {sent[src, dst, tag]} messages with the tag {tag} to "
        f"rank {dst}, which receives {received[src, dst, tag]}: give each Send its Recv"
    )
