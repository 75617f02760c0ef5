"""How long computing takes on a device that need not be here."""

from dataclasses import dataclass

from steptime.program import Compute
from steptime.units import format_flops, format_rate


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device by its speeds: FLOP/s, and bytes/s of its memory; None where not known."""

    flops: float | None = None
    memory: float | None = None

    def seconds(self, op: Compute) -> float:
        """The op's own seconds or, where it has none, what its FLOP or bytes take, if known."""
        if op.seconds is not None:
            return op.seconds
        computing = op.flops / self.flops if self.flops else 0.0
        moving = op.nbytes / self.memory if self.memory else 0.0
        return max(computing, moving)

    @property
    def described(self) -> str:
        """The speeds in words; empty where none is known."""
        known = [format_flops(self.flops)] if self.flops else []
        known += [f"{format_rate(self.memory)} of memory traffic"] if self.memory else []
        return " and ".join(known)
