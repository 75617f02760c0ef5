"""DistributedDataParallel whose gradients are summed where they lie.

DDP copies the gradients of a step into buckets and gives those to all_reduce. It makes them in C++,
with ``torch.empty``, once as it is made and once more before its second forward, in the order in
which gradients came in the first backward. Buckets in the arena need no copy to be summed up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from steptime.backend.host import empty
from steptime.backend.host.arena import PAGE

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel


def data_parallel(module: nn.Module, **options: Any) -> DistributedDataParallel:
    """``DistributedDataParallel(module, **options)`` with its buckets in the arena.

    On ranks of a group of steptime that share a host their gradients are summed up in place, which
    halves what the sum moves; elsewhere the buckets are tensors like any other. A collective call,
    as that of DistributedDataParallel is; the parameters lie on the CPU.

    Raises what DistributedDataParallel raises, and SteptimeError, here or in the second forward,
    where the host has too little memory for the buckets.
    """
    from torch.nn.parallel import DistributedDataParallel

    with _InArena():  # type: ignore[no-untyped-call]
        model = DistributedDataParallel(module, **options)
    model.register_forward_pre_hook(_rebuild_in_arena)
    return model


def _rebuild_in_arena(model: DistributedDataParallel, _inputs: tuple[Any, ...]) -> None:
    """Let DDP make its buckets anew, as its own forward would next; it does so only once."""
    if torch.is_grad_enabled():
        with _InArena():  # type: ignore[no-untyped-call]
            rebuilt = model.reducer._rebuild_buckets()
        model._has_rebuilt_buckets |= rebuilt


class _InArena(TorchDispatchMode):
    """Within it ``torch.empty``, that of C++ too, takes what may be a bucket from the arena."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        asked = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and _may_be_bucket(*args, **asked):
            return empty(args[0], dtype=asked["dtype"])
        return func(*args, **asked)


def _may_be_bucket(
    sizes: list[int],
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_others: Any,
) -> bool:
    """Whether it is on the CPU, of a dtype that gradients have, and worth a page of the arena."""
    return (
        device == torch.device("cpu")
        and dtype is not None
        and (dtype.is_floating_point or dtype.is_complex)
        and math.prod(sizes) * dtype.itemsize >= PAGE
    )
