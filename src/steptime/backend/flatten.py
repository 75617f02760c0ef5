"""Tensors of any strides as the contiguous vectors that the engines work on, and back.

Only the logical order of the elements counts, so ranks may hold the same tensor in other strides.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def flatten(tensor: Tensor) -> Tensor:
    """The elements of ``tensor`` as a contiguous vector: a view where it is contiguous already.

    Neither autograd nor the version counter of ``tensor`` sees what is written into the vector, as
    with every backend of torch.
    """
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
        # A copy in the order of the elements; clone would keep a dense tensor's strides.
        return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()).view(-1)
    if tensor.is_inference():
        own = torch.empty(0, dtype=tensor.dtype)
        own.set_(tensor.untyped_storage(), tensor.storage_offset(), (tensor.numel(),), (1,))
        return own
    if tensor.dim() == 1 and tensor.stride(0) == 1:
        return tensor.data
    # Not view(-1), which keeps the odd stride of a single element.
    return tensor.data.as_strided((tensor.numel(),), (1,))


def restore(tensor: Tensor, vector: Tensor) -> None:
    """Copy the received ``vector``, made by ``flatten`` of ``tensor``, back into ``tensor``."""
    if vector.data_ptr() != tensor.data_ptr() and tensor.numel():
        with torch.no_grad():
            tensor.data.copy_(vector.view(tensor.shape))


def parts(vector: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Consecutive views of ``vector``: the i-th has ``counts[i]`` elements."""
    return list(vector.split_with_sizes(list(counts)))


def joined(vectors: Sequence[Tensor]) -> Tensor | None:
    """The vector of which these are consecutive parts, where they are and none of them is empty."""
    first = vectors[0]
    end = first.data_ptr()
    for vector in vectors:
        if vector.data_ptr() != end or not vector.numel() or vector.dtype != first.dtype:
            return None
        end += vector.nbytes
    storage = first.untyped_storage()
    if end > storage.data_ptr() + storage.nbytes():
        return None  # neighbours by chance
    return first.as_strided((sum(vector.numel() for vector in vectors),), (1,))


def disjoint(one: Tensor, other: Tensor) -> bool:
    """Whether no byte lies in both of two contiguous tensors."""
    return apart(one.data_ptr(), one.nbytes, other.data_ptr(), other.nbytes)


def apart(first: int, size: int, second: int, other: int) -> bool:
    """Whether no byte lies in both of two spans, each an address and its bytes."""
    return first + size <= second or second + other <= first
