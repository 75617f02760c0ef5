"""A training framework by its physical parameters, one TOML file each, beside this one."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.predict.software.footprint import Footprint

AttentionKernel: TypeAlias = Literal["unfused", "flash"]

_FILES = files("steptime.predict.software")
_END = ".toml"


@dataclass(frozen=True, kw_only=True)
class Software:
    """How a framework drives devices.

    In its file, ``given`` are parameters that its code or its papers tell, ``memory`` those of its
    ``footprint``, and ``fitted`` those that were calibrated on measured steps. What is in none has
    the value that is written here.
    """

    name: str
    title: str
    source: str

    footprint: Footprint = field(default_factory=Footprint)
    """What it makes a rank keep."""

    attention: AttentionKernel = "flash"
    """Whether scores pass through memory (unfused) or stay in the kernel (flash)."""

    attention_rate: float = 1.0
    """The rate of its attention, as a part of FlashAttention-2's."""

    score_passes: float = 6.0
    """How often forward reads or writes scores that pass through memory."""

    passes: float = 1.5
    """How many times the bytes of fused kernels its norms and residual sums move."""

    inner_passes: float = 1.5
    """How many times the bytes of fused kernels what is within a block moves: its activation, the
    turning of positions, the copies between layouts of queries, keys and values."""

    cast_passes: float = 1.0
    """How many times the bytes of fused casts products in 8 bits move: each operand is read in 16
    bits and written in 8, as it is and turned."""

    even_context: bool = True
    """Whether ranks along context have parts of a row that attend to as many tokens (striped or
    zigzag), rather than consecutive parts, of which the last attends to almost all."""

    loss_passes: float = 6.0
    """How often forward and backward read or write the logits in fp32."""

    gradient_bytes: float = 4.0
    """Bytes of an element of a gradient as it is summed and reduced."""

    optimizer_bytes: float = 34.0
    """Bytes that the update moves of each parameter that a rank updates."""

    held_bytes: float = 12.0
    """Bytes that a step moves once of each parameter that a rank holds: to zero gradients, take
    their norm and cast weights."""

    regathers: bool = True
    """Whether backward gathers again what sequence parallelism had gathered."""

    even_stages: bool = False
    """Whether the stages of a pipeline are cut by what they take, the head counted, rather than by
    blocks alone."""

    fills_pipelines: bool = False
    """Whether its 1F1B refuses a step of fewer micro-batches than stages but one."""

    shards_in_pipelines: bool = False
    """Whether it shards gradients and parameters (ZeRO 2 and 3) within pipelines."""

    block_s: float = 1e-3
    """Seconds of the host to launch forward and backward of a block, a third of it forward."""

    call_s: float = 2e-5
    """Seconds of the host to launch a call of the communication library within a block."""

    step_s: float = 0.0
    """Seconds that a step costs once: data, logging, the host's part of the update."""

    bucket_bytes: float = 25 * 2**20
    """Bytes of gradients that one call reduces where nothing is sharded."""

    data_calls: float = 1.0
    """How many calls of a kind there are for a block where something is sharded."""

    data_overlap: float = 0.8
    """The part of data-parallel calls that may run behind computing."""

    tensor_overlap: float = 0.0
    """The part of tensor calls that runs behind computing."""

    message_overlap: float = 0.5
    """The part of messages between stages that runs behind computing."""

    contention: float = 0.2
    """Seconds that a second of a call takes from the computing beside it."""

    jitter: float = 0.0
    """By how much of its length a step is longer for each doubling of the hosts."""

    stall_s: float = 0.0
    """Seconds of the host that a tensor call takes more for each of its members where stages lie
    on several hosts."""


def software_names() -> tuple[str, ...]:
    """The names of all frameworks."""
    names = (file.name for file in _FILES.iterdir())
    return tuple(sorted(name.removesuffix(_END) for name in names if name.endswith(_END)))


def software_named(name: str) -> Software:
    """The framework of that name; raises UsageError, naming all there are, where there is none."""
    parts = dict(software_file(name))
    given, fitted = parts.pop("given", {}), parts.pop("fitted", {})
    return Software(name=name, **parts, **given, **fitted)


def software_file(name: str) -> Mapping[str, Any]:
    """What the file of a framework holds: title, source, footprint, ``given`` and ``fitted``."""
    if name not in software_names():
        raise UsageError(f"there is no software {name!r}: {mend(name, software_names())}")
    parts = tomllib.loads((_FILES / f"{name}{_END}").read_text())
    footprint = Footprint(**parts.pop("memory", {}))
    return {**parts, "footprint": footprint}
