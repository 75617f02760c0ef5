"""What tensors hold, as a number to compare it by."""

import sys
import zlib
from collections.abc import Iterable
from itertools import chain

import torch
from torch.nn.parameter import is_lazy

from steptime.check.observe.tensors import dense_parts

OF_BATCHES = 4 << 20
"""Bytes of a tensor that are read of a batch: two that begin alike for so long are alike."""

_SAMPLES = 64

_ROWS, _OF_ROW = 64, 4096
"""The rows of a batch that are read, and the bytes of each."""

_WORD, _ROW, _LARGE = 8, 512, 1 << 16  # bytes


def readable(tensor: torch.Tensor) -> bool:
    """Whether the bits of a tensor can be read now: not while a CUDA graph is captured.

    Those of a sparse tensor cannot, nor of one that has no memory.
    """
    if tensor.layout is not torch.strided or tensor.is_meta or is_lazy(tensor):
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def hash_of(tensors: Iterable[torch.Tensor], most_bytes: int = sys.maxsize) -> int:
    """A number that is the same where all bits are; of each tensor no more than ``most_bytes``.

    Large ones are summed up in rows where they are, as words of whole numbers, and the sums are
    hashed: at the speed of memory, and of what a GPU has little comes to the host.
    """
    result = 0
    for tensor in chain.from_iterable(map(dense_parts, tensors)):
        some = tensor.detach().flatten()[: most_bytes // max(1, tensor.element_size())]
        if some.stride() != (1,):  # which one element may have, and count as contiguous
            some = some.clone(memory_format=torch.contiguous_format)
        content = some.view(torch.uint8)
        whole = len(content) // _ROW * _ROW
        if whole >= _LARGE:
            # By its size alone, for another rank's may lie elsewhere in its memory.
            aligned = content.clone() if content.storage_offset() % _WORD else content
            sums = aligned[:whole].view(torch.int64).view(-1, _ROW // _WORD).sum(1)
            result, content = _hash(sums, result), aligned[whole:]
        result = _hash(content, result)
    return result


def samples_of(tensor: torch.Tensor) -> list[float]:
    """Some of a tensor's elements, evenly spread: what rounding may make a little different."""
    flat = dense_parts(tensor)[-1].detach().flatten()
    chosen = torch.linspace(0, len(flat) - 1, min(_SAMPLES, len(flat)), dtype=torch.float64)
    some = flat[chosen.long().to(flat.device)]
    real = torch.view_as_real(some).flatten() if some.is_complex() else some
    return [float(value) for value in real.nan_to_num().tolist()]


def rows_of(tensor: torch.Tensor) -> list[int]:
    """A hash of each of a tensor's first rows, which in a batch are samples."""
    rows = tensor.detach()[:_ROWS].flatten(1)[:, : _OF_ROW // tensor.element_size()]
    return [_hash(row.contiguous(), 0) for row in rows]


def _hash(tensor: torch.Tensor, before: int) -> int:
    return zlib.crc32(tensor.view(torch.uint8).cpu().numpy().data, before)
