"""Quick: calls that the kernel in C carries out as they are, past all that makes others fit.

What Python does for a small all_reduce takes longer than the all_reduce itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from steptime.backend import requests
from steptime.backend.host import Call, HostGroup, Kind, code

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.lanes import Lane
    from steptime.world.compat import RedOpType, ReduceOp

_KEPT = 4096


class Quick:
    """The calls of one group that need no more than the kernel, on its lane of collectives."""

    def __init__(self, engine: Engine, lane: Lane) -> None:
        self._host = engine if isinstance(engine, HostGroup) and engine.in_kernel else None
        self._lane = lane
        self._plans: dict[tuple[RedOpType, torch.dtype, int], tuple[Call, int] | None] = {}

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> bool:
        """Reduce a tensor on the CPU now; False where that takes more than the kernel.

        Raises UsageError for a reduction that torch has not, and what the call fails with.
        """
        host = self._host
        if (
            host is None
            or tensor.layout is not torch.strided
            or not tensor.is_contiguous()
            or tensor.is_neg()
        ):
            return False
        key = op.op, tensor.dtype, tensor.numel()
        try:
            plan = self._plans[key]
        except KeyError:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            plan = self._plans[key] = _plan(tensor, op)
        return plan is not None and self._lane.attempt(host.all_reduce_in_kernel, tensor, plan)


def _plan(tensor: Tensor, op: ReduceOp) -> tuple[Call, int] | None:
    """What the ranks compare, and how the kernel numbers the reduction; None where it has none."""
    reduction = requests.reduction(op, tensor)
    number = code(reduction, tensor.dtype)
    if number is None:
        return None
    call = Call.of(Kind.ALL_REDUCE, tensor.dtype, tensor.numel(), -1, reduction.name)
    return call, number
