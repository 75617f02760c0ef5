"""What a proxy can be asked for: frozen, checked, and quick to import."""

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.units import Size, parse_flops, parse_rate

ComputeChoice: TypeAlias = Literal["auto", "sleep", "busy", "nothing"]
Precision: TypeAlias = Literal["fp32", "bf16", "fp16"]
_COUNTS = (
    *("layers", "data", "tensor", "pipeline", "micro_batches", "interleave", "acc_scale"),
    *("batch", "rows", "context", "bucket", "steps"),
)


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """Which traffic, what stands in for computing, and how it is measured."""

    compat: Literal["dnn-cpp-proxies"] | None = None
    """MODEL is a program of that collection, whose step is run call by call, defects included."""

    layers: int | None = None
    """Layers, if not the model's."""

    data: int | None = None
    """Replicas; default: what tensor and pipeline leave of the ranks."""

    tensor: int | None = None
    """Ranks that share each layer."""

    pipeline: int | None = None
    """Stages that share the layers."""

    micro_batches: Annotated[int | None, Parameter(name=("--micro-batches", "--microbatches"))] = (
        None
    )
    """Micro-batches of a step that each pipeline runs; default: two a stage."""

    schedule: str | None = None
    """Pipeline schedule; default: 1f1b."""

    interleave: int | None = None
    """Chunks of layers that each stage holds."""

    acc_scale: int | None = None
    """Micro-batches a stage, of gpt3 and gpt3_moe with --compat."""

    strategy: str = "replicated"
    """Gradient-sync strategy, by the names of train; with --tensor or --pipeline replicated or
    sharded."""

    batch: int | None = None
    """Rows of the global batch of plain data parallelism; default: 8 a rank."""

    rows: int | None = None
    """Rows of a micro-batch with --tensor or --pipeline; default: 1."""

    context: int | None = None
    """Tokens a row, if not the model's."""

    precision: Precision = "fp32"
    """The dtype of parameters and activations; gradients are summed in fp32."""

    bucket: Size | None = None
    """Bucket size of the overlapped strategies; default: 25MiB."""

    scale_bytes: str = "1"
    """Shrink every message to this fraction, as 1/16: the answer is then that of no real model."""

    compute: ComputeChoice = "auto"
    """What stands in for computing. sleep leaves the core to others; busy multiplies matrices for
    as long; auto: sleep where times are known, else nothing."""

    device_flops: str | None = None
    """How fast the device computes that is stood in for, as 312TFLOP/s."""

    device_memory: str | None = None
    """How fast its memory is, as 2TB/s; default: memory traffic takes no time."""

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

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                option = name.replace("_", "-")
                raise UsageError(f"--{option} is {value}: it must be at least 1")
        for name in ("warmup", "seed"):
            if getattr(self, name) < 0:
                raise UsageError(f"--{name} is {getattr(self, name)}: it must be at least 0")
        if not 0 < self.fraction <= 1:
            raise UsageError(f"--scale-bytes is {self.scale_bytes}: write a fraction up to 1")
        for rate in (self.flops, self.memory):
            if rate is not None and rate <= 0:
                raise UsageError("a device of no speed never ends: give it one above 0")

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
    def memory(self) -> float | None:
        """The bytes/s of the device's memory."""
        return parse_rate(self.device_memory) if self.device_memory else None

    @property
    def hybrid(self) -> bool:
        """Whether ranks share a model's layers or the layers among them."""
        return any((self.tensor, self.pipeline, self.micro_batches, self.rows, self.schedule))

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise UsageError where one of these options was given."""
        defaults = {one.name: one.default for one in fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise UsageError(f"--{name.replace('_', '-')} {why}: leave it out")
