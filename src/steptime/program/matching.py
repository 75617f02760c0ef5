"""Matching: which ops of which ranks are the same collective or message.

Each time that the ranks of one group make a call it is an *instance* of the call. The *matching*
says which ops of which ranks meet in each instance. It follows from the order of the ops alone, as
in MPI and NCCL: collectives of one group match in the order in which its members make them,
messages between two ranks in the order in which they are sent.

It is kept by class of ranks (see ``meetings``); what takes a place for every op of every rank is
made when it is first asked for.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from steptime.arrays import Ints, Longs
from steptime.program.meetings import (
    Call,
    Meeting,
    Numbers,
    communications,
    meetings_of_collectives,
    meetings_of_messages,
)
from steptime.program.program import Program


class Callers(NamedTuple):
    """The groups that make one call.

    ``meeting``: the number of their meeting, and ``which`` of its groups they are, shape (n,).
    ``groups``: their ranks, shape (n, members). ``times``: how often each makes the call in a step,
    shape (n,).
    """

    meeting: int
    which: Longs
    groups: Ints
    times: Longs


class Instances(NamedTuple):
    """All instances of one call: their ``numbers``, in ascending order, shape (n,).

    ``groups``: the ranks that make the call together, shape (groups, members). ``group``: the group
    that makes each instance, shape (n,).
    """

    numbers: Longs
    groups: Ints
    group: Longs


class _Parts(NamedTuple):
    """What a Matching has for each instance and for each part; ``group`` is that of an instance."""

    call: Ints
    group: Ints
    first: Longs
    members: Ints
    instance: Ints
    place: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Matching:
    """All collectives and messages of one step.

    ``class_of``: the class of each rank, shape (ranks,); ``sizes``: how many parts a rank of each
    class has, shape (classes,).

    A *part* is one rank's op in an instance. A rank's parts are in the order of its list:
    ``parts_of``, shape (ranks + 1,), says where those of each rank begin, ``instance`` to which
    instance a part belongs and ``place`` which member its rank is there, both of shape (parts,).
    ``call``, shape (instances,), is the index in ``calls`` of what is called. ``members``, shape
    (parts,), holds the ranks of each instance from ``first``, shape (instances + 1,), on: in the
    order of the group; of a message, the sender and the receiver.
    """

    calls: tuple[Call, ...]
    meetings: tuple[Meeting, ...]
    class_of: Ints
    sizes: Longs

    @cached_property
    def callers(self) -> tuple[Callers, ...]:
        """The groups that make each of ``calls``."""
        found: dict[int, Callers] = {}
        for number, meeting in enumerate(self.meetings):
            firsts = self.class_of[meeting.groups[:, 0]]
            times = np.zeros((len(self.calls), self.sizes.size), np.int64)
            for kind, calls in meeting.calls.items():
                times[:, kind] = np.bincount(calls, minlength=len(self.calls))
            for call in np.flatnonzero(times.any(axis=1)).tolist():
                which = np.flatnonzero(times[call][firsts])
                made = times[call][firsts[which]]
                found[call] = Callers(number, which, meeting.groups[which], made)
        return tuple(found[call] for call in range(len(self.calls)))

    @cached_property
    def instances(self) -> tuple[Instances, ...]:
        """The instances of each of ``calls``, in their order."""
        order = np.argsort(self.call, kind="stable")
        counts = np.bincount(self.call, minlength=len(self.calls))
        numbers = np.split(order, np.cumsum(counts))[:-1]
        return tuple(
            Instances(own, made.groups, np.searchsorted(made.which, self._parts.group[own]))
            for own, made in zip(numbers, self.callers, strict=True)
        )

    @cached_property
    def parts_of(self) -> Longs:
        """Where the parts of each rank begin."""
        return np.concatenate([[0], np.cumsum(self.sizes[self.class_of])])

    @property
    def call(self) -> Ints:
        """What is called in each instance."""
        return self._parts.call

    @property
    def first(self) -> Longs:
        """Where the members of each instance begin."""
        return self._parts.first

    @property
    def members(self) -> Ints:
        """The ranks of each instance."""
        return self._parts.members

    @property
    def instance(self) -> Ints:
        """The instance of each part."""
        return self._parts.instance

    @property
    def place(self) -> Ints:
        """Which member of its instance each part's rank is."""
        return self._parts.place

    @cached_property
    def _parts(self) -> _Parts:
        ranks_of = [np.flatnonzero(self.class_of == kind) for kind in range(self.sizes.size)]
        starts = self._starts()
        total = sum(one.counts(self.class_of).sum() for one in self.meetings)
        call, group = np.empty(total, np.int32), np.empty(total, np.int32)
        instance = np.empty(self.parts_of[-1], np.int32)
        place = np.empty(self.parts_of[-1], np.int32)
        for meeting, start in zip(self.meetings, starts, strict=True):
            firsts = self.class_of[meeting.groups[:, 0]]
            for kind, calls in meeting.calls.items():
                own = ranks_of[kind] if meeting.ordered else np.flatnonzero(firsts == kind)
                numbers = start[own][:, None] + np.arange(calls.size)
                call[numbers], group[numbers] = calls, own[:, None]
            for role in meeting.roles:
                for kind, of_class in role.parts.items():
                    own = ranks_of[kind]
                    parts = self.parts_of[own][:, None] + of_class
                    of_group = start[role.group[own]][:, None]
                    instance[parts] = of_group + np.arange(of_class.size)
                    place[parts] = role.place[own][:, None]
        sizes = np.zeros(len(self.calls), np.int64)
        for meeting in self.meetings:
            for calls in meeting.calls.values():
                sizes[calls] = meeting.groups.shape[1]
        first = np.concatenate([[0], np.cumsum(sizes[call])])
        members = np.empty(self.parts_of[-1], np.int32)
        ranks = np.arange(self.class_of.size, dtype=np.int32)
        members[first[instance] + place] = np.repeat(ranks, np.diff(self.parts_of))
        return _Parts(call, group, first, members, instance, place)

    def _starts(self) -> list[Longs]:
        """The first instance of each group of each meeting, those of a group one after the other.

        Collectives come first, then messages, in the order of sender and receiver.
        """
        counts = [one.counts(self.class_of) for one in self.meetings]
        collectives = [one for one in self.meetings if not one.ordered]
        messages = self.meetings[len(collectives) :]
        sizes = np.concatenate([np.zeros(0, np.int64), *counts])
        groups = np.arange(sizes.size)
        if messages:
            ends = np.concatenate([one.groups for one in messages])
            later = groups[groups.size - len(ends) :]
            groups = np.concatenate(
                [groups[: later[0]], later[np.lexsort((ends[:, 1], ends[:, 0]))]]
            )
        starts = np.empty_like(sizes)
        starts[groups] = np.cumsum(sizes[groups]) - sizes[groups]
        bounds = np.cumsum([of.size for of in counts], dtype=np.int64)
        return np.split(starts, bounds)[:-1]


def match_calls(program: Program) -> Matching:
    """The matching of ``program``, which must have passed ``check``.

    The n-th collective of a rank along the same axes matches the n-th of every other member of its
    group; Send and Recv match as Send says.

    Raises UsageError where ranks of a group call other collectives or one of them calls more, and
    where a Send has no Recv, a Recv no Send, or the two disagree on the bytes.
    """
    communicating = communications(program)
    numbers = Numbers()
    collectives = meetings_of_collectives(program, communicating, numbers)
    messages = meetings_of_messages(program, communicating, numbers)
    sizes = np.zeros(len(program.lists), np.int64)
    for kind, ops in communicating.items():
        sizes[kind] = len(ops)
    return Matching(
        calls=tuple(numbers),
        meetings=(*collectives, *messages),
        class_of=program.class_of,
        sizes=sizes,
    )
