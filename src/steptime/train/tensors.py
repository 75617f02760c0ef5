"""Rows of tokens as tensors, and what all ranks know of a number."""

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor


def mean_over_ranks(value: Tensor) -> float:
    """Mean over all ranks of a value of shape (); outside of steps, so not counted as traffic."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def to_device(rows: NDArray[np.int64], device: torch.device) -> Tensor:
    """``rows`` as a tensor on ``device``."""
    return torch.from_numpy(rows).to(device, non_blocking=True)
