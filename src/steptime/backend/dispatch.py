"""Dispatch: calls on CPU tensors are carried out here, those on CUDA tensors by NCCL."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from steptime.world import compat


def on_cpu(method: Callable[..., Any]) -> Any:
    """Decorate a method for CPU tensors: CUDA tensors go to the group's NCCL group instead."""

    @wraps(method)
    @compat.left_alone
    def on_device(self: Any, first: Any, *others: Any, **options: Any) -> Any:
        tensor = first
        while isinstance(tensor, list):
            tensor = tensor[0] if tensor else others[0]
        if tensor.is_cpu:
            return method(self, first, *others, **options)
        return getattr(self.accelerator(tensor.device), method.__name__)(first, *others, **options)

    return on_device
