"""Combining the contributions of all ranks, in the order of the ranks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from steptime.backend.reduction import Reduction


def fold(op: Reduction, contributions: Sequence[Tensor], out: Tensor) -> None:
    """Reduce the contributions of rank 0, 1, 2… into ``out``.

    ``out`` may be one of them, and must not overlap any other.
    """
    wide = op.accumulator(out.dtype)
    if wide != out.dtype:
        total = contributions[0].to(wide)
        for part in contributions[1:]:
            op.combine(total, part.to(wide), out=total)
    elif len(contributions) == 1:
        total = contributions[0].clone()
    else:
        # What is still to be read when the first result is written must not lie there.
        kept = any(part.data_ptr() == out.data_ptr() for part in contributions[2:])
        total = torch.empty_like(out) if kept else out
        op.combine(contributions[0], contributions[1], out=total)
        for part in contributions[2:]:
            op.combine(total, part, out=total)
    if op.finish is not None:
        op.finish(total, len(contributions))
    if total is not out:
        out.copy_(total)
