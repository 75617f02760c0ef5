"""What a foreign trace tells of one rank: its steps, its calls, and what else it did when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from steptime.record.read import Group, Site
from steptime.timeline import Phase


class Span(NamedTuple):
    """What a rank did on a stream, from ``begin`` to ``end`` in nanoseconds of its wall clock."""

    stream: str
    name: str
    phase: Phase
    begin: int
    end: int


class Call(NamedTuple):
    """A call of a collective, or one end of a message, as one rank made it.

    ``nbytes``: of the whole vector, as ``bench`` counts it. ``begin`` and ``end``: nanoseconds of
    the wall clock; where the trace does not tell when it ended, both are when it was made, and
    ``done`` says whether it ended at all. ``issued``: when the script made it, 0 where only
    ``begin`` is told. ``peer``: root or peer within the group, -1 where that is
    not told. ``sequence``: its number in the group, -1 where that is not told.
    """

    kind: str
    group: Group
    nbytes: int
    begin: int
    end: int
    stream: str
    dtype: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    peer: int = -1
    sequence: int = -1
    done: bool = True
    issued: int = 0
    site: Site | None = None


class Step(NamedTuple):
    """A step from ``begin`` to ``end``, in nanoseconds; ``number`` as its trace counts it."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """What one rank did.

    ``steps_by``: what told where its steps end, empty where nothing did and all of it is one step.
    ``untold``: what this trace does not tell, in half sentences.
    """

    rank: int
    world_size: int
    host: str = ""
    backend: str = ""
    steps: Sequence[Step] = ()
    steps_by: str = ""
    spans: Sequence[Span] = ()
    calls: Sequence[Call] = ()
    untold: Sequence[str] = field(default=())

    @property
    def extent(self) -> tuple[int, int]:
        """From its first moment to its last."""
        begins = [*(one.begin for one in self.spans), *(one.begin for one in self.calls)]
        ends = [*(one.end for one in self.spans), *(one.end for one in self.calls)]
        begins += [one.begin for one in self.steps]
        ends += [one.end for one in self.steps]
        return min(begins), max(ends)
