"""The collectives that reduce: all_reduce, reduce, reduce_scatter.

A small block that all ranks need is reduced by each for itself. Of a larger one each rank reduces
one slice, which the others then copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steptime.backend.folding import fold
from steptime.backend.host.exchange import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch
    from torch import Tensor

    from steptime.backend.host.exchange import Exchange
    from steptime.backend.reduction import Reduction

SLICED_BYTES = 128 << 10
"""From this size on, the second barrier that slices need costs less than the work they save."""


def all_reduce(x: Exchange, tensor: Tensor, op: Reduction) -> None:
    """Reduce the tensors of all ranks into every rank's."""
    _reduce(x, tensor, op, range(x.ranks))


def reduce(x: Exchange, tensor: Tensor, root: int, op: Reduction) -> None:
    """Reduce the tensors of all ranks into that of ``root``."""
    _reduce(x, tensor, op, (root,))


def reduce_scatter(x: Exchange, output: Tensor, inputs: Sequence[Tensor], op: Reduction) -> None:
    """Reduce ``inputs[x.rank]`` of all ranks into ``output``."""
    sizes = [output.numel()] * x.ranks
    windows = x.windows(inputs, range(x.ranks), sizes, x.rank, written=(output,))
    if windows is not None:
        for block, *blocks in _blocks(x, output, *windows):
            fold(op, blocks, block)
        x.step()
        return
    parts = [x.blocks(tensor, x.ranks) for tensor in inputs]
    for index, block in enumerate(x.blocks(output, x.ranks)):
        slots = x.slots(block.dtype, block.numel(), x.ranks)
        for part, slot in zip(parts, slots[x.rank], strict=True):
            slot.copy_(part[index])
        x.step()
        fold(op, [slot[x.rank] for slot in slots], block)


def _reduce(x: Exchange, tensor: Tensor, op: Reduction, roots: Sequence[int]) -> None:
    windows = x.windows((tensor,), range(x.ranks), [tensor.numel()] * x.ranks)
    if windows is not None:
        _reduce_windows(x, windows, op, roots)
        return
    step = x.ranks * x.fitting(tensor.dtype, x.ranks)
    for block in split(tensor, step):
        if block.nbytes < SLICED_BYTES or x.ranks == 1:
            _reduce_whole(x, block, op, roots)
        else:
            _reduce_slices(x, block, op, roots)


def _reduce_whole(x: Exchange, block: Tensor, op: Reduction, roots: Sequence[int]) -> None:
    slots = x.slots(block.dtype, block.numel())
    slots[x.rank][0].copy_(block)
    x.step()
    if x.rank in roots:
        fold(op, [slot[0] for slot in slots], block)


def _reduce_slices(x: Exchange, block: Tensor, op: Reduction, roots: Sequence[int]) -> None:
    """Each rank reduces its slice of the block.

    The result takes the place of a contribution in the slots. Two processors take turns with
    those lines of their caches: the rank that reduces takes them over in one go when it writes,
    instead of first reading them and their owner reclaiming them later.
    """
    bounds = _slices(block.numel(), x.ranks, block.dtype)
    slices = [block[low:high] for low, high in bounds]
    slots = x.slots(block.dtype, bounds[0][1], x.ranks)
    others = [rank for rank in range(x.ranks) if rank != x.rank]
    for rank in others:
        _cut(slots[x.rank][rank], slices[rank]).copy_(slices[rank])
    x.step()
    own = slices[x.rank]
    contributions = [_cut(slot[x.rank], own) for slot in slots]
    contributions[x.rank] = own
    result = contributions[_place(x.rank)]
    fold(op, contributions, result)
    if x.rank in roots:
        own.copy_(result)
    x.step()
    if x.rank in roots:
        for rank in others:
            slices[rank].copy_(_cut(slots[_place(rank)][rank], slices[rank]))


def _place(rank: int) -> int:
    """The rank in whose slot ``rank`` leaves the slice that it reduced: the first other rank."""
    return 0 if rank else 1


def _cut(piece: Tensor, like: Tensor) -> Tensor:
    """The first elements of a slot's piece, as many as ``like`` has."""
    elements = like.numel()
    return piece if piece.numel() == elements else piece[:elements]


def _reduce_windows(
    x: Exchange, windows: Sequence[Tensor], op: Reduction, roots: Sequence[int]
) -> None:
    """Each rank reduces its slice of the tensors where they are, and writes it to the roots'.

    A block of the slices of all ranks stays in this processor's cache from reading to writing, so
    each tensor is read from memory once and written once.
    """
    low, high = _slices(windows[0].numel(), x.ranks, windows[0].dtype)[x.rank]
    for blocks in _blocks(x, *(window[low:high] for window in windows)):
        result = blocks[roots[0]]
        fold(op, blocks, result)
        for root in roots[1:]:
            blocks[root].copy_(result)
    x.step()


def _blocks(x: Exchange, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Equal tensors in blocks that together fill a quarter of the cache, or whole if half a one."""
    elements = x.fitting(tensors[0].dtype, x.ranks)
    if tensors[0].numel() <= 2 * elements:
        return (tensors,)
    return zip(*(tensor.split(elements) for tensor in tensors), strict=True)


def _slices(elements: int, ranks: int, dtype: torch.dtype) -> list[tuple[int, int]]:
    """The slice of each rank, the first the largest, cut at multiples of a cache line."""
    line = 128 // dtype.itemsize
    step = -(-elements // (ranks * line)) * line
    return [(min(r * step, elements), min((r + 1) * step, elements)) for r in range(ranks)]
