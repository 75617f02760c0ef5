"""Deadlocks: why the ranks of a program wait for each other for ever."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Flags, Longs
from steptime.program import Matching, Op, Program
from steptime.simulate.queues import COMMUNICATE, Queues

_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class Deadlock:
    """The state of a program's streams when none can go on.

    ``done``: how many ops of a step each stream has done, shape (ranks, streams). ``never``:
    whether a rank op never ends, shape (rank ops,).
    """

    program: Program
    queues: Queues
    matching: Matching
    done: Longs
    never: Flags

    def reason(self) -> str:
        """A sentence that names the ranks and ops of a circle of waits."""
        kinds = self.queues.class_of
        lengths = np.diff(self.queues.queue_of, axis=1)[kinds]
        rank, stream = np.argwhere(self.done < lengths)[0].tolist()
        seen: list[tuple[int, int]] = []
        while (rank, stream) not in seen:
            seen.append((rank, stream))
            rank, stream = self._blocking(rank, stream)
        circle = seen[seen.index((rank, stream)) :]
        named = [f"rank {one} in {self._head(one, on).name!r}" for one, on in circle[:_MOST_NAMED]]
        named += [f"{len(circle) - _MOST_NAMED} more"] * (len(circle) > _MOST_NAMED)
        return (
            f"{self.program.name} never ends: {', which waits for '.join([*named, named[0]])}; "
            "reach them in another order or on other streams"
        )

    def _place(self, rank: int, stream: int) -> int:
        """The place in its list of the op at which a stream is stuck."""
        first = self.queues.queue_of[self.queues.class_of[rank], stream]
        return int(self.queues.queue[first + self.done[rank, stream]])

    def _head(self, rank: int, stream: int) -> Op:
        ops = self.program.lists[int(self.program.class_of[rank])]
        return ops[self._place(rank, stream)]

    def _blocking(self, rank: int, stream: int) -> tuple[int, int]:
        """The stuck stream that another one waits for."""
        missing = self._missing(rank, stream)
        if missing is not None:
            return rank, self._stream_of(rank, missing)
        instance = self.matching.instance[self._part(rank, self._place(rank, stream))]
        members = self.matching.members[
            self.matching.first[instance] : self.matching.first[instance + 1]
        ]
        for member in members.tolist():
            own = slice(*self.matching.parts_of[member : member + 2])
            for part in np.flatnonzero(self.matching.instance[own] == instance).tolist():
                place = self._op_of(member, part)
                on = self._stream_of(member, place)
                if self._place(member, on) != place or self._missing(member, on) is not None:
                    return member, on
        raise AssertionError("all members have reached a call that never began")

    def _missing(self, rank: int, stream: int) -> int | None:
        """The first op that a stream's op comes after and that never ends."""
        base = self.queues.rank_ops_of[rank]
        after = [place for place in self._head(rank, stream).after if place >= 0]
        return next((place for place in after if self.never[base + place]), None)

    def _ops(self, rank: int) -> slice:
        kind = self.queues.class_of[rank]
        return slice(self.queues.ops_of[kind], self.queues.ops_of[kind + 1])

    def _part(self, rank: int, place: int) -> int:
        part = self.queues.part[self._ops(rank)][place]
        return int(self.matching.parts_of[rank] + part)

    def _op_of(self, rank: int, part: int) -> int:
        """The place of the op that is a rank's part number ``part``."""
        return int(np.flatnonzero(self.queues.code[self._ops(rank)] == COMMUNICATE)[part])

    def _stream_of(self, rank: int, place: int) -> int:
        kind = self.queues.class_of[rank]
        bounds = self.queues.queue_of[kind]
        at = np.flatnonzero(self.queues.queue[bounds[0] : bounds[-1]] == place)[0] + bounds[0]
        return int(np.searchsorted(bounds, at, side="right") - 1)
