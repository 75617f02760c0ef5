"""One tensor for all ranks of a group, in memory that they share."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from steptime.backend.host import segment
from steptime.errors import SteptimeError
from steptime.units import format_bytes
from steptime.world import room

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup


def shared(
    *shape: int, dtype: torch.dtype = torch.float32, group: ProcessGroup | None = None
) -> Tensor:
    """A tensor of zeros that is the same memory in every rank of ``group``, by default of all.

    A collective call: every rank must make it, with the same shape and dtype. What one rank writes
    the others read; a barrier tells when it is there. The memory is freed when no rank's tensor
    refers to it any more.

    Raises SteptimeError, on all ranks, when they do not all share one host or it has not the
    memory.
    """
    elements = math.prod(shape)
    if not elements:
        return torch.empty(shape, dtype=dtype)
    size = elements * dtype.itemsize
    offer: list[tuple[int, int] | str] = [""]
    fd: int | None = None
    if dist.get_rank(group) == 0:
        fd = segment.create(size)
        offer[0] = (os.getpid(), fd) if size <= room.available_bytes() else _too_large(size)
    try:
        dist.broadcast_object_list(offer, group=group, group_src=0)
        (found,) = offer
        if isinstance(found, str):
            raise SteptimeError(found)
        if fd is None:
            fd = segment.open_of(*found)
        _check_all_opened(fd is not None, group)
        assert fd is not None  # noqa: S101 - every rank has one, or all have raised
        memory = segment.attach(fd, size)
    finally:
        if fd is not None:
            os.close(fd)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _check_all_opened(opened: bool, group: ProcessGroup | None) -> None:
    """Return when all ranks have opened the memory, which until then its maker must hold open."""
    everyone = [False] * dist.get_world_size(group)
    dist.all_gather_object(everyone, opened, group=group)
    if not all(everyone):
        raise SteptimeError(
            f"ranks {', '.join(str(r) for r, here in enumerate(everyone) if not here)} are on "
            "other hosts than rank 0: a shared tensor needs all ranks on one host"
        )


def _too_large(size: int) -> str:
    return (
        f"a shared tensor needs {format_bytes(size)} and this process may take only "
        f"{format_bytes(room.available_bytes())} more: give the host or its container more memory"
    )
