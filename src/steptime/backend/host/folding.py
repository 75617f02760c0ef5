"""Combining the contributions of all ranks to one block, in the order of the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from steptime.backend.reduction import Reduction


def fold(op: Reduction, contributions: Sequence[Tensor], out: Tensor) -> None:
    """Reduce the contributions of rank 0, 1, 2… into ``out``.

    ``out`` may be that of rank 0 or 1, and must not overlap any other.
    """
    wide = op.accumulator(out.dtype)
    if wide != out.dtype:
        parts = (part.to(wide) for part in contributions)
        total = next(parts)
        for part in parts:
            op.combine(total, part, out=total)
        _finish(op, total, len(contributions))
        out.copy_(total)
        return
    if len(contributions) == 1:
        out.copy_(contributions[0])
    else:
        op.combine(contributions[0], contributions[1], out=out)
        for part in contributions[2:]:
            op.combine(out, part, out=out)
    _finish(op, out, len(contributions))


def _finish(op: Reduction, total: Tensor, ranks: int) -> None:
    if op.finish is not None:
        op.finish(total, ranks)
