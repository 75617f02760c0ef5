"""Tensors: what observers ask of one."""

from collections.abc import Sequence
from typing import Any

import torch


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether a tensor is spread over ranks, as FSDP2's and tensor parallelism's are."""
    return hasattr(tensor, "placements")


def is_hooked(parameter: Any) -> bool:
    """Whether a hook may do something with the gradient of a parameter."""
    after = getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(parameter._backward_hooks or after)


def is_followed(tensor: torch.Tensor) -> bool:
    """Whether autograd follows how a tensor was computed.

    It refuses to tell of a view that was made without it and changed with it since, as a part of a
    parameter that an optimizer updates in its place: nobody follows that.
    """
    try:
        return tensor.requires_grad and not tensor.is_leaf
    except RuntimeError:
        return False


def is_constant(tensor: torch.Tensor) -> bool:
    """Whether all elements are the same, as of a bias that begins with 0."""
    *_, values = dense_parts(tensor)
    return values.numel() == 0 or bool((values == values.flatten()[0]).all())


def dense_parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """What a tensor has: itself, or of a sparse one its places, in order, and its values there."""
    if not tensor.is_sparse:
        return [tensor]
    whole = tensor.detach().coalesce()
    return whole.indices(), whole.values()
