"""Tensors of calls: where they lie, and how many bytes they have."""

from collections.abc import Sequence

import torch


def address(tensors: Sequence[torch.Tensor]) -> int:
    """Where the first tensor begins; 0 where there is none, or where it has no memory."""
    if not tensors:
        return 0
    try:
        return tensors[0].data_ptr()
    except RuntimeError:
        return 0


def nbytes_of(tensor: torch.Tensor) -> int:
    """The bytes that a tensor has; a sparse one those of its values, and of where these belong."""
    if tensor.is_sparse:
        return int(tensor._values().nbytes + tensor._indices().nbytes)
    return int(tensor.nbytes)
