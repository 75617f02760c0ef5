"""How a run's program is replayed: frozen, checked, and quick to import."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from steptime.limits import check_limits

Kind: TypeAlias = Literal["sleep", "busy", "nothing"]
"""What stands in for computing."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What is replayed of a run, and how."""

    strategy: str | None = None
    """The one whose program is replayed, of several that ran."""

    compute: Kind = "sleep"
    """What stands in for computing, as long as it took. sleep leaves the core to others; busy
    multiplies matrices for as long; nothing leaves it out."""

    steps: int = 10
    """Steps that are timed."""

    warmup: int = 2
    """Steps before those."""

    verify: bool = False
    """Give every call data of its own and check every value received; takes time in the steps."""

    seed: int = 0
    """Seed of the data."""

    def __post_init__(self) -> None:
        check_limits(self)
