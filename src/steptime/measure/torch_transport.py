"""The BenchTransport of torch.distributed: gloo, nccl, and steptime's own backend."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from steptime.dtypes import Dtype
from steptime.measure.neighbours import shifted
from steptime.measure.transport import Call, Run
from steptime.world import compat

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "product": dist.ReduceOp.PRODUCT,
}


class TorchTransport:
    """One rank of torch.distributed, which must have been joined; its tensors are on ``device``.

    ``registered``: buffers lie in the arena of the backend steptime.
    """

    def __init__(self, device: torch.device, *, registered: bool = False) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self.device = device
        self._registered = registered
        self.library = f"{dist.get_backend()} of torch {torch.__version__}"
        self._group: list[dist.P2POp] = []

    def empty(self, elements: int, dtype: Dtype) -> Tensor:
        """A new 1-D tensor."""
        return torch.empty(elements, dtype=getattr(torch, dtype.name), device=self.device)

    def buffer(self, elements: int, dtype: Dtype) -> Tensor:
        """A new 1-D tensor, in the arena if ``registered``."""
        if not self._registered:
            return self.empty(elements, dtype)
        from steptime.backend import empty

        return empty(elements, dtype=getattr(torch, dtype.name))

    def write(self, vector: Tensor, numbers: NDArray[np.float64]) -> None:
        """Copy numbers into a tensor of the same length."""
        vector.copy_(torch.from_numpy(numbers))

    def read(self, vector: Tensor) -> NDArray[np.float64]:
        """The numbers in a tensor."""
        numbers: NDArray[np.float64] = vector.to("cpu", torch.float64).numpy()
        return numbers

    def builtin(self, call: Call) -> Run | None:
        """The collective of torch.distributed; one that only works in place gets a copy first."""
        send, receive, root, op = call.send, call.receive, call.root, _OPS[call.reduction]
        here = self.rank == root

        def copied(collective: Callable[[], Any]) -> Run:
            def run() -> None:
                receive.copy_(send)
                collective()

            return collective if call.in_place else run

        match call.operation.name:
            case "all_reduce":
                return copied(lambda: dist.all_reduce(receive, op))
            case "broadcast":
                broadcast = lambda: dist.broadcast(receive, root)  # noqa: E731
                return copied(broadcast) if here else broadcast
            case "reduce":
                return copied(lambda: dist.reduce(receive, root, op))
            case "all_gather":
                return lambda: compat.all_gather_single(receive, send)
            case "reduce_scatter":
                return lambda: compat.reduce_scatter_single(receive, send, op)
            case "gather":
                parts = list(receive.chunk(self.ranks)) if here else None
                return lambda: dist.gather(send, parts, root)
            case "scatter":
                parts = list(send.chunk(self.ranks)) if here else None
                return lambda: dist.scatter(receive, parts, root)
            case "all_to_all":
                return lambda: dist.all_to_all_single(receive, send)
            case "sendrecv":
                return shifted(self, send, receive)
        return self.barrier

    @property
    def early(self) -> bool:
        """No where NCCL's messages of a round begin as one group: it would wait for the next's."""
        return self.device.type != "cuda"

    def send(self, vector: Tensor, to: int) -> Run:
        """Begin to send; call the result to wait until the tensor may be changed again."""
        return self._message(dist.isend, vector, to)

    def receive(self, vector: Tensor, source: int) -> Run:
        """Begin to receive; call the result to wait until the tensor is there."""
        return self._message(dist.irecv, vector, source)

    def _message(self, begin: Callable[..., Any], vector: Tensor, peer: int) -> Run:
        if self.device.type != "cuda":
            return _waiting_for(begin(vector, peer))
        # NCCL deadlocks unless the messages of a round begin as one group: so the first wait for
        # any of them begins all.
        self._group.append(dist.P2POp(begin, vector, peer))
        return self._carry_out_group

    def _carry_out_group(self) -> None:
        group, self._group = self._group, []
        for work in dist.batch_isend_irecv(group) if group else ():
            work.wait()

    def reducer(self, reduction: str) -> Callable[[Tensor, Tensor], None]:
        """A function that reduces elementwise into its first argument; for ``avg`` it adds."""
        function = {"min": torch.minimum, "max": torch.maximum, "product": torch.mul}.get(
            reduction, torch.add
        )

        def reduce(into: Tensor, other: Tensor) -> None:
            function(into, other, out=into)

        return reduce

    def divide(self, vector: Tensor, divisor: int) -> None:
        """Divide a tensor in place."""
        vector.div_(divisor)

    def finish(self) -> None:
        """Wait until all calls started here are done, on a GPU too."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        dist.barrier()

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every rank's numbers, shape (ranks, *shape of numbers), on every rank."""
        own = torch.from_numpy(np.ascontiguousarray(numbers, float).reshape(-1)).to(self.device)
        every = torch.empty(self.ranks * own.numel(), dtype=own.dtype, device=self.device)
        compat.all_gather_single(every, own)
        return every.cpu().numpy().reshape(self.ranks, *np.shape(numbers))


def _waiting_for(work: Any) -> Run:
    def wait() -> None:
        work.wait()

    return wait
