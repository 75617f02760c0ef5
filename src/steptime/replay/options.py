"""What a proxy can be asked for beside its step: frozen, checked, and quick to import."""

from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.limits import check_limits
from steptime.units import parse_flops, parse_rate, parse_seconds

ComputeChoice: TypeAlias = Literal["auto", "sleep", "busy", "nothing"]


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """What stands in for computing in a step's traffic, and how it is measured."""

    compat: Literal["dnn-cpp-proxies"] | None = None
    """MODEL is a program of that collection, whose step is run call by call, defects included."""

    acc_scale: int | None = None
    """Micro-batches a stage, of gpt3 and gpt3_moe with --compat."""

    scale_bytes: str = "1"
    """Shrink every message to this fraction, as 1/16: the answer is then that of no real model."""

    compute: ComputeChoice = "auto"
    """What stands in for computing. sleep leaves the core to others; busy multiplies matrices for
    as long; auto: sleep where times are known, else nothing."""

    device_flops: str | None = None
    """How fast the device computes that is stood in for, as 312TFLOP/s."""

    device_memory: str | None = None
    """How fast its memory is, as 2TB/s; default: memory traffic takes no time."""

    times: Path | None = None
    """A table of measured times in place of a device: a CSV file with the columns name and seconds,
    where a name is that of a computation, or how it begins, as in: forward block 3,2.1ms."""

    compute_time: str | None = None
    """How long forward and backward of a step take together on the rank that computes most, as
    100ms, shared out by FLOP."""

    steps: int = 10
    """Steps that are timed."""

    warmup: int = 2
    """Steps before those."""

    verify: bool = False
    """Give every call data of its own and check every value received; takes time in the steps."""

    seed: int = 0
    """Seed of the data."""

    dry_run: bool = False
    """Tell groups, messages, bytes and memory, and start no rank."""

    ranks_per_host: int | None = None
    """Ranks that each host has in the placement that is told; default: 8, or as --cluster has."""

    cluster: str | None = None
    """Simulate it there, on a cluster by its name or file, and start no rank."""

    live: bool = False
    """With --cluster: run it here too, and tell how far the simulation is from that."""

    fidelity: Literal["auto", "message", "collective"] = "auto"
    """With --cluster: whether every message is simulated, or each collective by itself as for
    thousands of ranks; auto: message up to 128 ranks."""

    def __post_init__(self) -> None:
        check_limits(self)
        self._check_cluster()
        self._check_times()
        if not 0 < self.fraction <= 1:
            raise UsageError(f"--scale-bytes is {self.scale_bytes}: write a fraction up to 1")
        for rate in (self.flops, self.memory):
            if rate is not None and rate <= 0:
                raise UsageError("a device of no speed never ends: give it one above 0")

    def _check_times(self) -> None:
        names = ("times", "compute_time", "device_flops")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            one, other = (name.replace("_", "-") for name in given[:2])
            raise UsageError(f"--{one} and --{other} both say how long computing takes: choose one")
        if given and given[0] != "device_flops" and self.compute == "nothing":
            raise UsageError(
                f"--{given[0].replace('_', '-')} says how long computing takes, and --compute "
                "nothing leaves it out: choose one"
            )
        if self.compute_time is not None and self.compute_s <= 0:
            raise UsageError(f"--compute-time is {self.compute_time}: it must be above 0")

    def _check_cluster(self) -> None:
        if self.cluster is not None:
            self.refuse(("ranks_per_host",), "is what the cluster says itself")
        if self.cluster is None:
            self.refuse(("live", "fidelity"), "goes with --cluster")
        elif self.live and self.dry_run:
            raise UsageError("--dry-run starts no rank and --live does: leave one of them out")
        elif not self.live:
            names = ("verify", "seed", "steps", "warmup")
            self.refuse(names, "is about live ranks, and only --live starts some")

    @property
    def fraction(self) -> Fraction:
        """By how much messages shrink; raises UsageError where the text is no fraction."""
        try:
            return Fraction(self.scale_bytes)
        except (ValueError, ZeroDivisionError):
            raise UsageError(
                f"--scale-bytes is {self.scale_bytes!r}: write a fraction, as 1/16"
            ) from None

    @property
    def flops(self) -> float | None:
        """The device's FLOP/s."""
        return parse_flops(self.device_flops) if self.device_flops else None

    @property
    def compute_s(self) -> float:
        """The seconds that --compute-time says, 0 without it."""
        return parse_seconds(self.compute_time) if self.compute_time else 0.0

    @property
    def memory(self) -> float | None:
        """The bytes/s of the device's memory."""
        return parse_rate(self.device_memory) if self.device_memory else None

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise UsageError where one of these options was given."""
        defaults = {one.name: one.default for one in fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise UsageError(f"--{name.replace('_', '-')} {why}: leave it out")
