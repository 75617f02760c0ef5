"""ReplayTransport: the calls that a replay makes of a communication library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeAlias

from steptime.arrays import Ints
from steptime.collectives.execute import Vector
from steptime.dtypes import Dtype
from steptime.measure.transport import BenchTransport


@dataclass(frozen=True)
class GroupCall:
    """A collective of the group along ``axes``.

    ``whole`` holds all ranks' data, or what every rank reduces or is sent. ``part`` holds one
    rank's data, in or out, or the output of an all_to_all, or the input of an all_reduce that is
    not in place; else it is empty. ``root`` counts within the group.
    """

    kind: str
    axes: tuple[str, ...]
    whole: Vector
    part: Vector
    root: int


class Pending(Protocol):
    """A call in progress."""

    def done(self) -> bool:
        """Whether this rank's part is done; raises the error of a failed call."""


Begin: TypeAlias = Callable[[], Pending]
"""Begins a prepared call, and may do so again once it is done."""


class ReplayTransport(Protocol):
    """Begins one rank's calls: collectives of sub-groups, and messages.

    All members of a group must begin its calls in the same order.
    """

    @property
    def world(self) -> BenchTransport:
        """The BenchTransport among all ranks, which has the rank's vectors too."""

    @property
    def sums_in_place(self) -> bool:
        """Whether an all_reduce reads its output even where it has an input of its own."""

    def element(self, dtype: str) -> Dtype:
        """The dtype that carries elements of a program's dtype."""

    def vector(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector, where the library is fastest."""

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Make the sub-groups along ``axes``: ranks in order, shape (groups, members)."""

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Prepare for messages, given all pairs of sender and receiver in the program."""

    def collective(self, call: GroupCall) -> Begin:
        """Prepare a collective."""

    def blocking(self, call: GroupCall) -> Callable[[], float] | None:
        """Prepare a collective that returns when this rank's part is done.

        It returns the seconds that its thread has worked by when it was under way. None where that
        is no faster than to begin it and wait.
        """

    def send(self, pieces: Sequence[Vector], to: int, tag: int) -> Begin:
        """Prepare a message to a rank, sent in ``pieces``, one after another."""

    def receive(self, pieces: Sequence[Vector], source: int, tag: int) -> Begin:
        """Prepare a message from a rank, in the same ``pieces``."""

    def wait_for_any(self, pending: Sequence[Any], seconds: float = inf) -> None:
        """Return when one of them may be done, after so many seconds of the clock at the latest.

        Where there is a limit the core is left to others meanwhile.
        """

    def close(self) -> None:
        """Free the groups."""
