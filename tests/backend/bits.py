"""What tests of the kernel in C beside Python share: groups of both, and tensors of any bits."""

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from steptime.backend.host import kernel

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
ARITHMETIC = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
needs_c = pytest.mark.skipif(not kernel.is_built(), reason="no C was built")


def group_by(name: str, members: Any = None) -> Any:
    """A group of steptime in c, or in python."""
    import steptime.backend  # noqa: F401

    os.environ[kernel.VARIABLE] = name
    return dist.new_group(members, backend="steptime")


def any_bits(dtype: torch.dtype, elements: int, seed: int = 0) -> torch.Tensor:
    """Any bits there are, so of floats also infinities, subnormals and what is no number."""
    generator = torch.Generator().manual_seed(elements + 31 * dist.get_rank() + 1009 * seed)
    size = elements * dtype.itemsize
    bits = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).view(dtype)
    if dtype.is_floating_point:  # every other one such that sums and products are numbers
        usual = torch.randn(elements, generator=generator).to(dtype)
        return torch.where(torch.arange(elements) % 2 == 0, bits, usual)
    return bits


def placed(tensor: torch.Tensor, arena: bool) -> torch.Tensor:
    """The same elements, in the arena or not."""
    from steptime.backend import empty

    return empty(tensor.shape, dtype=tensor.dtype).copy_(tensor) if arena else tensor.clone()


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same bits, except those of what is no number."""
    alike = one.view(torch.uint8).view(-1, one.itemsize) == other.view(torch.uint8).view(
        -1, one.itemsize
    )
    equal = alike.all(1)
    if one.dtype.is_floating_point:
        equal |= one.isnan() & other.isnan()
    return bool(equal.all())
