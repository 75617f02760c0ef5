"""Optimizers: their parameters, and the numbers by which they step."""

import math
from typing import Any

import torch


def parameters_of(optimizer: Any) -> list[torch.Tensor]:
    """All of an optimizer, group by group."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def settings_of(optimizer: Any) -> list[dict[str, float]]:
    """The numbers by which an optimizer steps, of each of its groups of parameters."""
    return [
        {name: float(value) for name, value in group.items() if _is_number(value)}
        for group in optimizer.param_groups
    ]


def _is_number(value: Any) -> bool:
    """Whether it is one that the notes can hold, and that needs no GPU to be asked for."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.is_cuda and bool(value.isfinite())
    return isinstance(value, int | float) and math.isfinite(value)
