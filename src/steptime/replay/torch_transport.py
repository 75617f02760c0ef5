"""The ReplayTransport of torch.distributed: gloo, and steptime's own backend."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from math import inf
from time import thread_time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime import clock
from steptime.arrays import Ints
from steptime.dtypes import BY_SHORT_NAME, Dtype
from steptime.measure.torch_transport import TorchTransport
from steptime.replay.transport import Begin, GroupCall, Pending
from steptime.world import compat

_MOST_AT_ONCE = 64


class _Ended:
    """A call that a thread waits for: gloo cannot tell whether a message is done."""

    def __init__(self, future: "Future[Any]") -> None:
        self.future = future

    def done(self) -> bool:
        """Whether it is done; raises what made it fail."""
        if self.future.done():
            self.future.result()
            return True
        return False


class TorchReplayTransport:
    """One rank of torch.distributed, which must have been joined, on tensors of the CPU."""

    sums_in_place = True

    def __init__(self, world: TorchTransport | None = None) -> None:
        shared = dist.get_backend() == "steptime"
        self.world = world or TorchTransport(torch.device("cpu"), registered=shared)
        self._groups: dict[tuple[str, ...], dist.ProcessGroup] = {}
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "replay")

    def element(self, dtype: str) -> Dtype:
        """The same dtype of torch."""
        return BY_SHORT_NAME[dtype]

    def vector(self, elements: int, dtype: Dtype) -> Tensor:
        """A new tensor; with the backend steptime in its arena."""
        return self.world.buffer(elements, dtype)

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Make the sub-groups along ``axes``."""
        for ranks in groups.tolist():
            group = dist.new_group(ranks)
            if self.world.rank in ranks:
                self._groups[axes] = group

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Do nothing: ranks on CPUs are connected."""

    def collective(self, call: GroupCall) -> Begin:
        """Prepare a collective."""
        function, arguments = self._collective(call)
        group = self._groups[call.axes]
        return lambda: self._ended([function(*arguments, group=group, async_op=True)])

    def blocking(self, call: GroupCall) -> Callable[[], float] | None:
        """Prepare a collective that returns when it is done, begun and awaited as in a training."""
        function, arguments = self._collective(call)
        group = self._groups[call.axes]

        def to_its_end() -> float:
            began = thread_time()
            work = function(*arguments, group=group, async_op=True)
            posted_s = thread_time() - began
            work.wait()
            return posted_s

        return to_its_end

    def _collective(self, call: GroupCall) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        group, whole, part = self._groups[call.axes], call.whole, call.part
        members = dist.get_process_group_ranks(group)
        root, here = members[call.root], members[call.root] == self.world.rank
        match call.kind:
            case "all_reduce":
                return dist.all_reduce, (whole,)
            case "broadcast":
                return dist.broadcast, (whole, root)
            case "reduce":
                return dist.reduce, (whole, root)
            case "all_gather":
                return compat.all_gather_single, (whole, part)
            case "reduce_scatter":
                return compat.reduce_scatter_single, (part, whole)
            case "all_to_all":
                return dist.all_to_all_single, (part, whole)
            case "gather":
                return dist.gather, (part, list(whole.chunk(len(members))) if here else None, root)
            case "scatter":
                return dist.scatter, (part, list(whole.chunk(len(members))) if here else None, root)
        return dist.barrier, ()

    def send(self, pieces: Sequence[Tensor], to: int, tag: int) -> Begin:
        """Prepare a message to a rank."""
        return lambda: self._ended([dist.isend(piece, to, tag=tag) for piece in pieces])

    def receive(self, pieces: Sequence[Tensor], source: int, tag: int) -> Begin:
        """Prepare a message from a rank."""
        return lambda: self._ended([dist.irecv(piece, source, tag=tag) for piece in pieces])

    def _ended(self, works: Sequence[Any]) -> Pending:
        return _Ended(self._threads.submit(_wait, works))

    def wait_for_any(self, pending: Sequence[Any], seconds: float = inf) -> None:
        """Return when one of them is done, after so many seconds of the clock at the latest."""
        limit = None if seconds == inf else seconds * clock.DILATION
        wait([one.future for one in pending], limit, return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Free the groups and the threads."""
        self._threads.shutdown()
        self._groups.clear()


def _wait(works: Sequence[Any]) -> None:
    for work in works:
        work.wait()
