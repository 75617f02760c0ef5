"""Footprint: what a training framework makes a rank keep beside the formulas of a step."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Master: TypeAlias = Literal["beside", "alone"]
Gathered: TypeAlias = Literal["never", "alone", "always"]
Logs: TypeAlias = Literal["most", "first"]

_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """The memory of a framework, by what it physically keeps: the table ``memory`` of its file.

    The defaults are Megatron-LM's, where nothing else is said.
    """

    master: Master = "beside"
    """Whether fp32 weights lie beside those that it computes with, or are the only ones, cast as
    they are gathered (FSDP)."""

    logs: Logs = "most"
    """Whose peak its logs and tables print: of the rank that keeps the most, or of the first stage,
    as rank 0 does."""

    logs_reserved: bool = False
    """Whether that peak is what the allocator has reserved, fragments too, rather than given."""

    reduced_bytes: float = 0.0
    """Bytes for each parameter of the buckets in which replicated gradients are reduced, where
    those are not the buffer in which they are summed (DDP)."""

    copies: float = 0.0
    """Elements of the hidden width that a layer keeps for each token beside the inputs of its
    norms and products: what kernels that are not fused write anew."""

    gathered: Gathered = "never"
    """Whether a layer keeps the two inputs that sequence-parallel ranks gather: alone is where
    there is no pipeline."""

    streams: float = 0.0
    """Residual streams, of all tokens that a rank computes with, that every micro-batch in flight
    keeps once: what is sent, received and gathered."""

    selective_keeps: float = 1.0
    """The part of what a layer keeps, scores apart, that stays where recomputation is selective."""

    logit_bytes: float = 6.0
    """Bytes for each logit while the loss is computed: in the dtype of the model, in fp32, and what
    its gradient needs."""

    logit_kept_bytes: float = 4.0
    """Bytes for each logit that stay until backward."""

    workspace_bytes: float = 0.2e9
    """Bytes that libraries take of the allocator, whatever the step: cuBLAS's workspaces, tables of
    positions."""

    context_bytes: float = 0.5 * _GIB
    """Bytes of the device's context, its kernels and its libraries."""

    communicator_bytes: float = 0.55 * _GIB
    """Bytes of the buffers of a communicator, of which an axis of several ranks has one."""

    fragments: float = 0.08
    """The part of all else that the allocator cannot fill: freed blocks that fit no request."""
