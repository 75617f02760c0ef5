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
    """``rows`` as a tensor on ``device``.

    From memory that may be paged out a GPU would be waited for, since it copies after all that it
    has to do.
    """
    here = torch.from_numpy(rows)
    if device.type == "cuda":
        here = here.pin_memory()
    return here.to(device, non_blocking=True)
