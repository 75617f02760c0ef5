"""The BenchTransport of MPI: mpi4py on NumPy arrays. torch is never imported."""

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from steptime.dtypes import Dtype
from steptime.measure.neighbours import shifted
from steptime.measure.transport import Call, Run

Array = NDArray[Any]

_OPS = {"sum": MPI.SUM, "avg": MPI.SUM, "min": MPI.MIN, "max": MPI.MAX, "product": MPI.PROD}


class MpiTransport:
    """One rank of an MPI communicator."""

    early = True

    def __init__(self, communicator: MPI.Intracomm) -> None:
        self.rank = communicator.Get_rank()
        self.ranks = communicator.Get_size()
        lines = MPI.Get_library_version().split("MPICH Release")[0].split(",")[0]
        self.library = " ".join(lines.split())
        self._communicator = communicator

    def empty(self, elements: int, dtype: Dtype) -> Array:
        """A new 1-D array."""
        return np.empty(elements, dtype.name)

    def buffer(self, elements: int, dtype: Dtype) -> Array:
        """A new 1-D array; MPI registers nothing."""
        return self.empty(elements, dtype)

    def write(self, vector: Array, numbers: NDArray[np.float64]) -> None:
        """Copy numbers into an array of the same length."""
        vector[:] = numbers

    def read(self, vector: Array) -> NDArray[np.float64]:
        """The numbers in an array."""
        return vector.astype(np.float64)

    def builtin(self, call: Call) -> Run | None:
        """MPI's collective; an ``avg`` is its sum, divided."""
        collective = self._collective(call)
        if collective is None or call.reduction != "avg" or not call.operation.reduces:
            return collective

        def run() -> None:
            collective()
            self.divide(call.receive, self.ranks)

        return run

    def _collective(self, call: Call) -> Run | None:
        communicator, root, op = self._communicator, call.root, _OPS[call.reduction]
        here, receive = self.rank == root, call.receive
        send = MPI.IN_PLACE if call.in_place else call.send
        match call.operation.name:
            case "all_reduce":
                return lambda: communicator.Allreduce(send, receive, op)
            case "broadcast":
                return self._broadcast(call)
            case "reduce":
                own = send if here else call.send
                return lambda: communicator.Reduce(own, receive if here else None, op, root)
            case "all_gather":
                return lambda: communicator.Allgather(send, receive)
            case "reduce_scatter" if not call.in_place:  # MPI's leaves its result elsewhere
                return lambda: communicator.Reduce_scatter_block(send, receive, op)
            case "gather":
                own = send if here else call.send
                return lambda: communicator.Gather(own, receive if here else None, root)
            case "scatter":
                into = MPI.IN_PLACE if here and call.in_place else receive
                return lambda: communicator.Scatter(call.send if here else None, into, root)
            case "all_to_all":
                return lambda: communicator.Alltoall(send, receive)
            case "sendrecv":
                return shifted(self, call.send, receive)
            case "barrier":
                return self.barrier
        return None

    def _broadcast(self, call: Call) -> Run:
        copies = self.rank == call.root and not call.in_place

        def run() -> None:
            if copies:
                call.receive[:] = call.send
            self._communicator.Bcast(call.receive, call.root)

        return run

    def send(self, vector: Array, to: int) -> Run:
        """Begin to send; call the result to wait until the array may be changed again."""
        return _waiting_for(self._communicator.Isend(vector, to))

    def receive(self, vector: Array, source: int) -> Run:
        """Begin to receive; call the result to wait until the array is there."""
        return _waiting_for(self._communicator.Irecv(vector, source))

    def reducer(self, reduction: str) -> Callable[[Array, Array], None]:
        """A function that reduces elementwise into its first argument; for ``avg`` it adds."""
        function = {"min": np.minimum, "max": np.maximum, "product": np.multiply}.get(
            reduction, np.add
        )

        def reduce(into: Array, other: Array) -> None:
            function(into, other, out=into)

        return reduce

    def divide(self, vector: Array, divisor: int) -> None:
        """Divide an array in place."""
        np.divide(vector, divisor, out=vector)

    def finish(self) -> None:
        """Do nothing: a call of MPI that returned is done."""

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._communicator.Barrier()

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every rank's numbers, shape (ranks, *shape of numbers), on every rank."""
        own = np.array(numbers, np.float64, order="C")
        every = np.empty((self.ranks, *own.shape))
        self._communicator.Allgather(own, every)
        return every


def _waiting_for(request: MPI.Request) -> Run:
    def wait() -> None:
        request.Wait()

    return wait
