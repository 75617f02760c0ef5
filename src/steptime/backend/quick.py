"""Quick: calls that the kernel in C carries out as they are, past all that makes others fit.

What Python does for a small all_reduce takes longer than the all_reduce itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from steptime.backend import requests
from steptime.backend.flatten import flatten
from steptime.backend.host import Call, HostGroup, Kind, code
from steptime.backend.work import DONE, Done

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.lanes import Lane
    from steptime.backend.requests import Names
    from steptime.world.compat import RedOpType, ReduceOp, Work

_KEPT = 4096


class Quick:
    """The calls of one group that need no more than the kernel, on its lane of collectives."""

    def __init__(self, engine: Engine, names: Names, lane: Lane) -> None:
        self._host = engine if isinstance(engine, HostGroup) and engine.in_kernel else None
        self._names = names
        self._lane = lane
        self._plans: dict[tuple[RedOpType, torch.dtype, int], tuple[Call, int] | None] = {}

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> bool:
        """Reduce a tensor on the CPU now; False where that takes more than the kernel.

        Raises UsageError for a reduction that torch has not, and what the call fails with.
        """
        host = self._host
        if host is None or not is_plain(tensor):
            return False
        key = op.op, tensor.dtype, tensor.numel()
        try:
            plan = self._plans[key]
        except KeyError:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            plan = self._plans[key] = _plan(tensor, op)
        return plan is not None and bool(
            self._lane.attempt(host.all_reduce_in_kernel, tensor, plan)
        )

    def send(self, tensor: Tensor, peer: int, tag: int, lane: Lane) -> Work | None:
        """Send a message, or begin to, on the lane of its route; None where that takes more."""
        host = self._host
        if host is None or not (0 <= tag < requests.TAGS and is_plain(tensor)):
            return None
        call = Call.of(Kind.SEND, tensor.dtype, tensor.numel(), self._names[peer])
        if lane.attempt(host.try_send, call, tensor, peer, tag):
            return DONE
        number = lane.attempt(host.offer, call, tensor, peer, tag)
        return lane.start((tensor,), host.finish_send, call, peer, tag, number) if number else None

    def recv(self, tensor: Tensor, peer: int, tag: int, lane: Lane) -> Work | None:
        """Receive a message on the lane of its route; None where that takes more."""
        host = self._host
        if host is None or not (0 <= tag < requests.TAGS and is_plain(tensor)):
            return None
        call = Call.of(Kind.RECV, tensor.dtype, tensor.numel(), self._names[peer])
        if lane.attempt(host.try_recv, call, tensor, peer, tag):
            return Done((tensor,), peer)
        return lane.start((tensor,), host.recv, call, flatten(tensor), peer, tag)


def is_plain(tensor: Tensor) -> bool:
    """Whether the elements of a tensor on the CPU are what lies at its address, in their order."""
    return (
        tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_neg() or tensor.is_conj())
    )


def _plan(tensor: Tensor, op: ReduceOp) -> tuple[Call, int] | None:
    """What the ranks compare, and how the kernel numbers the reduction; None where it has none."""
    reduction = requests.reduction(op, tensor)
    number = code(reduction, tensor.dtype)
    if number is None:
        return None
    call = Call.of(Kind.ALL_REDUCE, tensor.dtype, tensor.numel(), -1, reduction.name)
    return call, number
