"""The collectives that copy: broadcast, all_gather, gather, scatter, all_to_all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from steptime.backend.host.exchange import Exchange


def broadcast(x: Exchange, tensor: Tensor, root: int) -> None:
    """Copy the tensor of ``root`` to all ranks."""
    offered = (tensor,) if x.rank == root else ()
    windows = x.windows(offered, (root,), (tensor.numel(),))
    if windows is not None:
        _copy(tensor, windows[0])
        x.step()
        return
    for block in x.blocks(tensor):
        slots = x.slots(block.dtype, block.numel())
        if x.rank == root:
            slots[root][0].copy_(block)
        x.step()
        if x.rank != root:
            block.copy_(slots[root][0])


def gather(x: Exchange, outputs: Sequence[Tensor] | None, tensor: Tensor) -> None:
    """Copy every rank's ``tensor`` into ``outputs[i]`` of the ranks that give outputs."""
    written = [output for rank, output in enumerate(outputs or ()) if rank != x.rank]
    windows = x.windows((tensor,), range(x.ranks), [tensor.numel()] * x.ranks, written=written)
    if windows is not None:
        for output, window in zip(outputs or (), windows, strict=outputs is not None):
            _copy(output, window)
        x.step()
        return
    parts = [x.blocks(output) for output in outputs or ()]
    for index, block in enumerate(x.blocks(tensor)):
        slots = x.slots(block.dtype, block.numel())
        slots[x.rank][0].copy_(block)
        x.step()
        for part, slot in zip(parts, slots, strict=outputs is not None):
            part[index].copy_(slot[0])


def scatter(x: Exchange, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> None:
    """Copy ``inputs[i]`` of ``root`` into the ``output`` of rank i; other ranks give no inputs."""
    offered = inputs if inputs is not None and x.rank == root else ()
    windows = x.windows(offered, (root,), (output.numel(),), x.rank, written=(output,))
    if windows is not None:
        _copy(output, windows[0])
        x.step()
        return
    parts = [x.blocks(tensor, x.ranks) for tensor in offered]
    for index, block in enumerate(x.blocks(output, x.ranks)):
        slots = x.slots(block.dtype, block.numel(), x.ranks)[root]
        for part, slot in zip(parts, slots, strict=False):
            slot.copy_(part[index])
        x.step()
        block.copy_(slots[x.rank])


def all_to_all(x: Exchange, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Copy rank i's ``inputs[j]`` into rank j's ``outputs[i]``; sizes may differ.

    Raises SteptimeError, on all ranks, when a rank expects another size than it is sent.
    """
    sizes = _tell_sizes(x, [t.numel() for t in inputs], [t.numel() for t in outputs])
    windows = x.windows(
        inputs, range(x.ranks), [t.numel() for t in outputs], x.rank, written=outputs
    )
    sent = _agreed_sizes(x, sizes)
    if windows is not None:
        for output, window in zip(outputs, windows, strict=True):
            _copy(output, window)
        x.step()
        return
    dtype = inputs[0].dtype
    step = x.fitting(dtype, x.ranks)
    for start in range(0, max(1, int(sent.max())), step):
        slots = x.slots(dtype, step, x.ranks)
        for tensor, piece in zip(inputs, slots[x.rank], strict=True):
            part = tensor[start : start + step]
            piece[: part.numel()].copy_(part)
        x.step()
        for tensor, slot in zip(outputs, slots, strict=True):
            part = tensor[start : start + step]
            part.copy_(slot[x.rank][: part.numel()])


def agree(x: Exchange, sent: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether all pairs of ranks exchange equally much; raises where sent and expected differ."""
    if not sent:
        x.step()
        return True
    sizes = _tell_sizes(x, sent, expected)
    x.step()
    agreed = _agreed_sizes(x, sizes)
    return bool((agreed == agreed[0, 0]).all())


def _tell_sizes(x: Exchange, sent: Sequence[int], expected: Sequence[int]) -> list[list[Tensor]]:
    """Publish this rank's sizes for the next point; returns the table of every rank's sizes."""
    sizes = x.slots(torch.int64, 2 * x.ranks)
    sizes[x.rank][0].copy_(torch.tensor([*sent, *expected]))
    return sizes


def _agreed_sizes(x: Exchange, sizes: Sequence[Sequence[Tensor]]) -> Tensor:
    """Elements from each rank (row) to each (column); raises where another number is expected."""
    table = torch.stack([slot[0] for slot in sizes])
    sent, expected = table[:, : x.ranks], table[:, x.ranks :].T
    if not torch.equal(sent, expected):
        raise x.barrier.unequal(sent, expected)
    return sent


def _copy(output: Tensor, source: Tensor) -> None:
    if output.data_ptr() != source.data_ptr():
        output.copy_(source)
