"""What tensors hold, as a number to compare it by."""

import sys
import zlib
from collections.abc import Iterable

import torch


def readable(tensor: torch.Tensor) -> bool:
    """Whether the bits of a tensor can be read now: not while a CUDA graph is captured."""
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def hash_of(tensors: Iterable[torch.Tensor], most_bytes: int = sys.maxsize) -> int:
    """A number that is the same where all bits are; of each tensor no more than ``most_bytes``."""
    result = 0
    for tensor in tensors:
        some = tensor.detach().flatten()[: most_bytes // max(1, tensor.element_size())]
        result = zlib.crc32(some.contiguous().view(torch.uint8).cpu().numpy().data, result)
    return result
