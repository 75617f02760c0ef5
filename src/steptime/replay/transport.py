"""What a replay needs of a library: to begin calls of sub-groups and learn when they are done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from steptime.arrays import Ints
from steptime.collectives.execute import Vector
from steptime.dtypes import Dtype
from steptime.measure.transport import BenchTransport


@dataclass(frozen=True)
class GroupCall:
    """A collective of the group along ``axes``.

    ``whole`` holds all ranks' data, or what every rank reduces or is sent; ``part`` one rank's, in
    or out, the output of an all_to_all, and the input of an all_reduce that is not in place, else
    empty. ``root`` counts within the group.
    """

    kind: str
    axes: tuple[str, ...]
    whole: Vector
    part: Vector
    root: int


class Pending(Protocol):
    """A call under way."""

    def done(self) -> bool:
        """Whether this rank's part is done; raises what made it fail."""


Begin: TypeAlias = Callable[[], Pending]
"""Begins a call that was made ready before, and may do so again once it is done."""


class ReplayTransport(Protocol):
    """Begins one rank's calls: collectives of sub-groups, and messages.

    All members of a group must begin its calls in the same order.
    """

    @property
    def world(self) -> BenchTransport:
        """The transport among all ranks, which has the rank's vectors too."""

    @property
    def sums_in_place(self) -> bool:
        """Whether an all_reduce reads what it writes even where it has an input of its own."""

    def element(self, dtype: str) -> Dtype:
        """What carries elements of a program's dtype."""

    def vector(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector, where the library reaches it best."""

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Make the sub-groups along ``axes``: ranks in order, shape (groups, members)."""

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Get ready for messages from one rank to another, given all such pairs of the program."""

    def collective(self, call: GroupCall) -> Begin:
        """Make a collective ready."""

    def blocking(self, call: GroupCall) -> Callable[[], object] | None:
        """Make a collective ready that returns when this rank's part is done.

        None where that is no faster than to begin it and wait.
        """

    def send(self, pieces: Sequence[Vector], to: int, tag: int) -> Begin:
        """Make a message to a rank ready, which goes in pieces, one after another."""

    def receive(self, pieces: Sequence[Vector], source: int, tag: int) -> Begin:
        """Make a message from a rank ready, which comes in the same pieces."""

    def wait_for_any(self, pending: Sequence[Any]) -> None:
        """Return when one of them may be done."""

    def close(self) -> None:
        """Give back the groups."""
