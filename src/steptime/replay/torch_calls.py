"""Calls by torch.distributed: gloo, and steptime's own backend."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.measure.dtype import DTYPES, Dtype
from steptime.measure.torch_carrier import TorchCarrier
from steptime.program.program import Ints
from steptime.replay.calls import GroupCall

_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_MOST_AT_ONCE = 64


class _Ended:
    """A call that some thread waits for: gloo does not say of a message whether it is done."""

    def __init__(self, future: "Future[Any]") -> None:
        self.future = future

    def done(self) -> bool:
        """Whether it is done; raises what made it fail."""
        if self.future.done():
            self.future.result()
            return True
        return False


class TorchCaller:
    """One rank of torch.distributed, which must have been joined, on tensors of the CPU."""

    def __init__(self) -> None:
        self.carrier = TorchCarrier(torch.device("cpu"))
        self._groups: dict[tuple[str, ...], dist.ProcessGroup] = {}
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "replay")

    def element(self, dtype: str) -> Dtype:
        """The same dtype of torch."""
        return DTYPES[_NAMES[dtype]]

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Make the sub-groups along ``axes``."""
        for ranks in groups.tolist():
            group = dist.new_group(ranks)
            if self.carrier.rank in ranks:
                self._groups[axes] = group

    def begin(self, call: GroupCall) -> _Ended:
        """Begin a collective."""
        group, whole, part = self._groups[call.axes], call.whole, call.part
        members = dist.get_process_group_ranks(group)
        root, here = members[call.root], members[call.root] == self.carrier.rank
        how: dict[str, Any] = {"group": group, "async_op": True}
        match call.kind:
            case "all_reduce":
                work = dist.all_reduce(whole, **how)
            case "broadcast":
                work = dist.broadcast(whole, root, **how)
            case "reduce":
                work = dist.reduce(whole, root, **how)
            case "all_gather":
                work = dist.all_gather_single(whole, part, **how)
            case "reduce_scatter":
                work = dist.reduce_scatter_single(part, whole, **how)
            case "all_to_all":
                work = dist.all_to_all_single(part, whole, **how)
            case "gather":
                work = dist.gather(
                    part, list(whole.chunk(len(members))) if here else None, root, **how
                )
            case "scatter":
                work = dist.scatter(
                    part, list(whole.chunk(len(members))) if here else None, root, **how
                )
            case _:
                work = dist.barrier(**how)
        return self._waited(work)

    def send(self, vector: Tensor, to: int, tag: int) -> _Ended:
        """Begin to send to a rank."""
        return self._waited(dist.isend(vector, to, tag=tag))

    def receive(self, vector: Tensor, source: int, tag: int) -> _Ended:
        """Begin to receive from a rank."""
        return self._waited(dist.irecv(vector, source, tag=tag))

    def _waited(self, work: Any) -> _Ended:
        return _Ended(self._threads.submit(work.wait))

    def wait_for_any(self, pending: Sequence[Any]) -> None:
        """Return when one of them is done."""
        wait([one.future for one in pending], return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Give back the groups and the threads."""
        self._threads.shutdown()
        self._groups.clear()
