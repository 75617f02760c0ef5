"""Quick: calls that the kernel in C carries out as they are, past all that makes others fit.

What Python does for a small all_reduce takes longer than the all_reduce itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from steptime.backend import requests
from steptime.backend.host import Call, HostGroup, Kind, code
from steptime.backend.host.mail import EAGER_BYTES
from steptime.backend.work import DONE, Done
from steptime.world.compat import CallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.lanes import Lane
    from steptime.backend.requests import Names
    from steptime.world.compat import ReduceOp, Work

DEFAULT = CallOptions()
"""What a call is given that is given nothing."""

_KEPT = 4096
_STRIDED = torch.strided
_TAGS = requests.TAGS
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
        self._mail = None if host is None else host.mail
        self._names = names
        self._ranks = len(names)
        self._lane = lane
        self._reductions: _Plans = {}
        self._scatters: _Plans = {}
        self._calls: dict[tuple[Kind, torch.dtype, int, int | None], Call] = {}

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
        return self._run(kernel.reduce, plan[0], tensor, plan[1])

    def broadcast(self, tensor: Tensor, opts: Any) -> int:
        """Copy a tensor."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not is_plain(tensor):
            return False
        root = opts.rootRank
        call = self._call(Kind.BROADCAST, tensor.dtype, tensor.numel(), root)
        if call is None:
            return False
        return self._run(kernel.broadcast, call, tensor, root)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any) -> int:
        """Fill the output with the tensors of all ranks."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not (is_plain(output) and is_plain(tensor)):
            return False
        dtype, elements = tensor.dtype, tensor.numel()
        call = self._call(Kind.ALL_GATHER, dtype, elements)
        if call is None or output.dtype != dtype or output.numel() != self._ranks * elements:
            return False
        return self._run(kernel.gather_single, call, output, tensor)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any) -> int:
        """Fill the output with this rank's part of the reduction of the tensors."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or not (is_plain(tensor) and is_plain(output)):
            return False
        dtype, elements = output.dtype, output.numel()
        if tensor.dtype != dtype or tensor.numel() != self._ranks * elements:
            return False
        op = opts.reduceOp
        plan = self._scatters.get((hash(op), dtype, elements))
        plan = plan or self._plan(self._scatters, Kind.REDUCE_SCATTER, op, output)
        if plan is None:
            return False
        return self._run(kernel.reduce_scatter_single, plan[0], output, tensor, plan[1])

    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any,
    ) -> int:
        """Exchange equal parts."""
        kernel = self._kernel
        if kernel is None or opts.asyncOp or output_splits or input_splits:
            return False
        dtype, elements, ranks = tensor.dtype, tensor.numel(), self._ranks
        if output.dtype != dtype or output.numel() != elements or not elements:
            return False
        if elements % ranks or not (self._divides(tensor) and self._divides(output)):
            return False
        call = self._call(Kind.ALL_TO_ALL, dtype, 0)
        if call is None or not (is_plain(tensor) and is_plain(output)):
            return False
        return self._run(kernel.all_to_all_single, call, output, tensor)

    def _divides(self, tensor: Tensor) -> bool:
        """Whether rows whose elements can be dealt out evenly can be so themselves."""
        dimensions = tensor.dim()
        return dimensions == 1 or (dimensions > 1 and tensor.size(0) % self._ranks == 0)

    def _run(self, collective: Callable[..., None], *arguments: Any) -> int:
        """Call a collective of the kernel, unless other calls come first."""
        host, lane = self._host, self._lane
        if host is None or host.members.failure or not lane.takes_turn():
            return False
        try:
            collective(*arguments)
        except BaseException as error:
            lane.keep(error)
            host.break_off(error)
            raise
        finally:
            lane.end_turn()
        return True

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

    def _call(
        self, kind: Kind, dtype: torch.dtype, elements: int, root: int | None = None
    ) -> Call | None:
        """What the ranks compare, kept by what it is made of; None for what may be conjugated."""
        key = kind, dtype, elements, root
        return self._calls.get(key) or self._new_call(*key)

    def _new_call(
        self, kind: Kind, dtype: torch.dtype, elements: int, root: int | None
    ) -> Call | None:
        if dtype.is_complex:
            return None
        if len(self._calls) >= _KEPT:
            self._calls.clear()
        of = -1 if root is None else self._names[root]
        call = self._calls[kind, dtype, elements, root] = Call.of(kind, dtype, elements, of)
        return call

    def send(self, tensor: Tensor, peer: int, tag: int, lane: Lane) -> Work | None:
        """Send a message, or begin to, on the lane of its route; None where that takes more."""
        mail = self._mail
        if mail is None or not (0 <= tag < _TAGS and is_plain(tensor) and lane.is_clear()):
            return None
        call = self._call(Kind.SEND, tensor.dtype, tensor.numel(), peer)
        if call is None:
            return None
        lane.crew.latest = 0
        # Another thread's call of this lane may begin now. Neither of the two came first.
        try:
            if call.bytes <= EAGER_BYTES:
                return DONE if mail.try_send(call, tensor, peer, tag) else None
            number = mail.offer(call, tensor, peer, tag)
        except BaseException as error:
            lane.keep(error)
            raise
        if not number:
            return None
        rests = partial(mail.rests, peer, number)
        return lane.start((tensor,), mail.finish, call, peer, tag, number, rests=rests)

    def recv(self, tensors: Sequence[Tensor], peer: int, tag: int, lane: Lane) -> Work | None:
        """Receive a message on the lane of its route; None where that takes more."""
        mail, tensor = self._mail, tensors[0]
        if mail is None or not (0 <= tag < _TAGS and is_plain(tensor)):
            return None
        call = self._call(Kind.RECV, tensor.dtype, tensor.numel(), peer)
        if call is None:
            return None
        # Made beforehand: once the message has arrived, every line takes time that one waits for.
        done = Done(tensors, peer)
        if lane.is_clear():
            try:
                # An early receive is no time to look for the message, for then others come late.
                if mail.try_recv(call, tensor, peer, tag, patient=lane.is_awaited_at_once):
                    return done
            except BaseException as error:
                lane.keep(error)
                raise
        return lane.start(tensors, mail.receive, mail.expect(call, tensor, peer, tag))


def is_plain(tensor: Tensor) -> bool:
    """Whether the elements of a tensor on the CPU are what lies at its address, in their order.

    Complex ones may be conjugated all the same: no call here takes them.
    """
    return tensor.layout is _STRIDED and tensor.is_contiguous() and not tensor.is_neg()
