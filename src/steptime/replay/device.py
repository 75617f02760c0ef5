"""Device: speeds of a device that need not be here, and computing times on it."""

from dataclasses import dataclass
from math import inf

from steptime.program import Compute
from steptime.simulate.device import roofline_seconds
from steptime.units import format_flops, format_rate


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device by its speeds: FLOP/s, and bytes/s of its memory; None where unknown."""

    flops: float | None = None
    memory: float | None = None

    def seconds(self, op: Compute) -> float:
        """The op's own seconds or, where it has none, its roofline time, None if unknown."""
        return roofline_seconds(op, self.flops or inf, self.memory or inf)

    @property
    def described(self) -> str:
        """The speeds in words; empty where none is known."""
        known = [format_flops(self.flops)] if self.flops else []
        known += [f"{format_rate(self.memory)} of memory traffic"] if self.memory else []
        return " and ".join(known)
