"""Shards: which part of each tensor of a model the ranks along tensor hold."""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from steptime.workloads.models import Tensor, Transformer

Box: TypeAlias = tuple[slice, ...]
"""A part of a tensor, with a slice for each dimension."""

_BY_ROW = (".proj.weight",)


@dataclass(frozen=True)
class Shard:
    """A rank's part of one ``tensor`` of the whole model: some boxes of it, along ``dim``.

    They are put together along ``dim`` in their order. A tensor that every rank has whole is one
    box.
    """

    tensor: Tensor
    boxes: tuple[Box, ...]
    dim: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the rank holds."""
        sizes = [[part.stop - part.start for part in box] for box in self.boxes]
        shape = sizes[0]
        shape[self.dim] = sum(size[self.dim] for size in sizes)
        return tuple(shape)

    @property
    def size(self) -> int:
        """Elements of what the rank holds."""
        return prod(self.shape)


def shard_of(model: Transformer, tensor: Tensor, ranks: int, rank: int) -> Shard:
    """What a tensor-parallel rank holds of a tensor: columns, rows, or heads of a fused one.

    ``model`` has a vocabulary that the ranks divide. Shoeybi et al., "Megatron-LM" (arXiv
    1909.08053), section 3.
    """
    whole = tuple(slice(0, size) for size in tensor.shape)
    if ranks == 1 or not tensor.split:
        return Shard(tensor, (whole,))
    if tensor.name.endswith(_BY_ROW):
        return Shard(tensor, ((whole[0], _part(tensor.shape[1], ranks, rank)),), dim=1)
    starts, sizes = _blocks_of(model, tensor)
    boxes = []
    for start, size in zip(starts, sizes, strict=True):
        part = _part(size, ranks, rank)
        boxes.append((slice(start + part.start, start + part.stop), *whole[1:]))
    return Shard(tensor, tuple(boxes))


def _blocks_of(model: Transformer, tensor: Tensor) -> tuple[list[int], list[int]]:
    """Where the blocks of rows start that are cut one by one, and their sizes."""
    rows = tensor.shape[0]
    if ".attention.qkv." not in tensor.name:
        return [0], [rows]
    queries = model.heads * model.query_width
    keys = model.kv_heads * model.query_width
    return [0, queries, queries + keys], [queries, keys, keys]


def _part(size: int, ranks: int, rank: int) -> slice:
    return slice(size * rank // ranks, size * (rank + 1) // ranks)
