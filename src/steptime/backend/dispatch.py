"""Dispatch: which of several ways a call of a process group takes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from steptime.backend.quick import Quick
from steptime.backend.work import DONE
from steptime.world import compat


def on_cpu(method: Callable[..., Any], quick: Callable[..., bool] | None = None) -> Any:
    """Decorate a method for CPU tensors: CUDA tensors go to the group's NCCL group instead."""

    @wraps(method)
    @compat.left_alone
    def on_device(self: Any, first: Any, *others: Any, **options: Any) -> Any:
        tensor = first
        while isinstance(tensor, list):
            tensor = tensor[0] if tensor else others[0]
        if tensor.is_cpu:
            if quick is not None and quick(self._quick, first, *others, **options):
                return DONE
            return method(self, first, *others, **options)
        return getattr(self.accelerator(tensor.device), method.__name__)(first, *others, **options)

    return on_device


def quickly(method: Callable[..., Any]) -> Any:
    """``on_cpu`` for a method that Quick has too, which goes first."""
    return on_cpu(method, getattr(Quick, method.__name__))
