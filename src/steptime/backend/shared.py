"""shared(): one tensor whose memory all ranks of a group share."""

from __future__ import annotations

import ctypes
import math
import os
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from steptime.backend.host import segment
from steptime.errors import SteptimeError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup


def shared(
    *shape: int, dtype: torch.dtype = torch.float32, group: ProcessGroup | None = None
) -> Tensor:
    """A tensor of zeros whose memory is shared by every rank of ``group``, by default all ranks.

    A collective call: every rank must make it, with the same shape and dtype. After a barrier each
    rank reads what the others wrote. The memory is freed when no rank's tensor refers to it any
    more.

    Raises SteptimeError, on all ranks, when they are not all on one host or it has too little
    memory.
    """
    elements = math.prod(shape)
    if not elements:
        return torch.empty(shape, dtype=dtype)
    size = elements * dtype.itemsize
    made = _make(size) if dist.get_rank(group) == 0 else None
    offer = [(os.getpid(), made) if isinstance(made, int) else made]
    fd = made if isinstance(made, int) else None
    try:
        dist.broadcast_object_list(offer, group=group, group_src=0)
        (found,) = offer
        if not isinstance(found, tuple):
            raise SteptimeError(f"{found}")
        fd = segment.open_of(*found) if fd is None else fd
        _check_all_opened(fd is not None, group)
        assert fd is not None  # noqa: S101 - every rank has one, or all have raised
        memory = segment.attach(fd, size)
    finally:
        if fd is not None:
            os.close(fd)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _make(size: int) -> int | str:
    """A segment with its memory taken, or the reason why there is none."""
    fd = segment.create(size)
    try:
        segment.require_memory(size)
        memory = segment.attach(fd, size)
        segment.populate(ctypes.addressof(memory), size)
    except SteptimeError as error:
        os.close(fd)
        return str(error)
    return fd


def _check_all_opened(opened: bool, group: ProcessGroup | None) -> None:
    """Wait until all ranks have opened the memory; its maker must keep it open until then."""
    everyone = [False] * dist.get_world_size(group)
    dist.all_gather_object(everyone, opened, group=group)
    if not all(everyone):
        raise SteptimeError(
            f"ranks {', '.join(str(r) for r, here in enumerate(everyone) if not here)} are on "
            "other hosts than rank 0: a shared tensor needs all ranks on one host"
        )
