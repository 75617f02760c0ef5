"""Quick: calls that the kernel in C carries out as they are, past all that makes others fit.

What Python does for a small all_reduce takes longer than the all_reduce itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from steptime.backend import requests
from steptime.backend.host import Call, HostGroup, Kind, code
from steptime.backend.work import DONE, Done
from steptime.world.compat import CallOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.lanes import Lane
    from steptime.backend.requests import Names
    from steptime.world.compat import ReduceOp, Work

DEFAULT = CallOptions()
"""What a call is given that is given nothing."""

_KEPT = 4096
_STRIDED = torch.strided
_Plan = tuple[Call, int]
_Plans = dict[tuple[int, torch.dtype, int], _Plan]
"""By the number of the reduction, which is its hash, and the type and number of elements."""


class Quick:
    """The calls of one group that need no more than the kernel, on its lane of collectives.

    Collectives return 0, having done nothing, where a call takes more than the kernel; else they
    raise what it fails with. They take what the methods of that name of SteptimeGroup take.
    """

    def __init__(self, engine: Engine, names: Names, lane: Lane) -> None:
        host = engine if isinstance(engine, HostGroup) and engine.kernel else None
        self._host = host
        self._kernel = None if host is None else host.kernel
        self._carry_out: Any = None if host is None else host.carry_out
        self._names = names
        self._lane = lane
        self._reductions: _Plans = {}
        self._scatters: _Plans = {}

    def all_reduce(self, tensor: Tensor, opts: Any) -> int:
        """Reduce a tensor."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not is_plain(tensor):
            return False
        op = opts.reduceOp
        plan = self._reductions.get((hash(op), tensor.dtype, tensor.numel()))
        plan = plan or self._plan(self._reductions, Kind.ALL_REDUCE, op, tensor)
        if plan is None:
            return False
        return self._lane.attempt(self._carry_out, kernel.reduce, plan[0], tensor, plan[1])

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = DEFAULT) -> int:
        """Copy a tensor."""
        (tensor,) = tensors
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not is_plain(tensor):
            return False
        root = opts.rootRank
        call = Call.of(Kind.BROADCAST, tensor.dtype, tensor.numel(), self._names[root])
        return self._lane.attempt(self._carry_out, kernel.broadcast, call, tensor, root)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = DEFAULT) -> int:
        """Fill the output with the tensors of all ranks."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not self._fit(output, tensor):
            return False
        call = Call.of(Kind.ALL_GATHER, tensor.dtype, tensor.numel())
        return self._lane.attempt(self._carry_out, kernel.gather_single, call, output, tensor)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = DEFAULT) -> int:
        """Fill the output with this rank's part of the reduction of the tensors."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not self._fit(tensor, output):
            return False
        op = opts.reduceOp
        plan = self._scatters.get((hash(op), output.dtype, output.numel()))
        plan = plan or self._plan(self._scatters, Kind.REDUCE_SCATTER, op, output)
        if plan is None:
            return False
        return self._lane.attempt(
            self._carry_out, kernel.reduce_scatter_single, plan[0], output, tensor, plan[1]
        )

    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = DEFAULT,
    ) -> int:
        """Exchange equal parts."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or output_splits or input_splits:
            return False
        rows = tensor.shape[0] if tensor.dim() else 1
        if rows % len(self._names) or output.shape != tensor.shape:
            return False
        if not (output.dtype == tensor.dtype and is_plain(tensor) and is_plain(output)):
            return False
        call = Call.of(Kind.ALL_TO_ALL, tensor.dtype, 0)
        return self._lane.attempt(self._carry_out, kernel.all_to_all_single, call, output, tensor)

    def _fit(self, whole: Tensor, part: Tensor) -> bool:
        """Whether a tensor is plainly as large as a part of every rank."""
        return (
            whole.dtype == part.dtype
            and whole.numel() == len(self._names) * part.numel()
            and is_plain(whole)
            and is_plain(part)
        )

    def _plan(self, plans: _Plans, kind: Kind, op: ReduceOp, tensor: Tensor) -> _Plan | None:
        """What the ranks compare, and the number of the reduction; None for one C has not."""
        reduction = requests.reduction(op, tensor)
        number = code(reduction, tensor.dtype)
        if number is None:
            return None
        if len(plans) >= _KEPT:
            plans.clear()
        call = Call.of(kind, tensor.dtype, tensor.numel(), -1, reduction.name)
        plan = plans[hash(op), tensor.dtype, tensor.numel()] = call, number
        return plan

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
        return lane.start((tensor,), host.recv, call, tensor, peer, tag)


def is_plain(tensor: Tensor) -> bool:
    """Whether the elements of a tensor on the CPU are what lies at its address, in their order."""
    return (
        tensor.layout is _STRIDED
        and tensor.is_contiguous()
        and not (tensor.is_neg() or tensor.is_conj())
    )
