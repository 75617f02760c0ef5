"""What a replay needs of a library: to begin calls among sub-groups and hear of their end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steptime.collectives.execute import Vector
from steptime.measure.carrier import Carrier
from steptime.measure.dtype import Dtype
from steptime.program.program import Ints


@dataclass(frozen=True)
class GroupCall:
    """A collective of the group along ``axes``.

    ``whole`` holds all ranks' data, or what every rank reduces or is sent; ``part`` one rank's, in
    or out, and the output of an all_to_all. ``root`` counts within the group.
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


class Caller(Protocol):
    """Begins the calls of one rank. Calls of one group must begin in the same order everywhere."""

    @property
    def carrier(self) -> Carrier:
        """The rank's vectors, and how ranks wait for all others."""

    def element(self, dtype: str) -> Dtype:
        """What carries elements of a program's dtype."""

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Make the sub-groups along ``axes``: ranks in order, shape (groups, members)."""

    def begin(self, call: GroupCall) -> Pending:
        """Begin a collective."""

    def send(self, vector: Vector, to: int, tag: int) -> Pending:
        """Begin to send to a rank."""

    def receive(self, vector: Vector, source: int, tag: int) -> Pending:
        """Begin to receive from a rank."""

    def wait_for_any(self, pending: Sequence[Any]) -> None:
        """Return when one of them may be done."""

    def close(self) -> None:
        """Give back the groups."""
