"""shared(): one tensor whose memory all ranks of a group share."""

from __future__ import annotations

import ctypes
import math
import os
from typing import TYPE_CHECKING, TypeAlias

import torch
import torch.distributed as dist

from steptime.backend.host import segment
from steptime.errors import SteptimeError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

_Memory: TypeAlias = "ctypes.Array[ctypes.c_ubyte]"


def shared(
    *shape: int, dtype: torch.dtype = torch.float32, group: ProcessGroup | None = None
) -> Tensor:
    """A tensor of zeros whose memory is shared by every rank of ``group``, by default all ranks.

    A collective call: every rank must make it, with the same shape and dtype. After a barrier each
    rank reads what the others wrote. The memory is freed when no rank's tensor refers to it any
    more.

    Raises SteptimeError, on all ranks, when they are not all on one host, it has too little memory,
    or a limit of a process forbids it.
    """
    elements = math.prod(shape)
    if not elements:
        return torch.empty(shape, dtype=dtype)
    size = elements * dtype.itemsize
    fd, memory, trouble = _make(size) if dist.get_rank(group) == 0 else (None, None, "")
    try:
        offer = [(os.getpid(), fd, trouble)]
        dist.broadcast_object_list(offer, group=group, group_src=0)
        pid, theirs, trouble = offer[0]
        if theirs is None:
            raise SteptimeError(trouble)
        if memory is None:
            memory, trouble = _map(pid, theirs, size)
        _check_all_mapped(trouble, group)  # until then its maker must keep it open
    finally:
        if fd is not None:
            os.close(fd)
    assert memory is not None  # noqa: S101 - every rank has one, or all have raised
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _make(size: int) -> tuple[int | None, _Memory | None, str]:
    """A segment with its memory taken, or the reason why there is none."""
    try:
        segment.require_memory(size)
        fd, memory = segment.make(size)
    except SteptimeError as error:
        return None, None, str(error)
    try:
        segment.populate(ctypes.addressof(memory), size)
    except SteptimeError as error:
        os.close(fd)
        return None, None, str(error)
    return fd, memory, ""


def _map(pid: int, fd: int, size: int) -> tuple[_Memory | None, str]:
    """The segment of rank 0, mapped, or the reason why it cannot be."""
    try:
        memory = segment.map_of(pid, fd, size)
    except SteptimeError as error:
        return None, str(error)
    elsewhere = "it is on another host than rank 0, and all ranks must be on one"
    return memory, "" if memory is not None else elsewhere


def _check_all_mapped(trouble: str, group: ProcessGroup | None) -> None:
    everyone = [trouble] * dist.get_world_size(group)
    dist.all_gather_object(everyone, trouble, group=group)
    for rank, found in enumerate(everyone):
        if found:
            raise SteptimeError(f"rank {rank} cannot map a shared tensor: {found}")
