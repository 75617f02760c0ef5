"""Calls by MPI: mpi4py on NumPy arrays. torch is never imported."""

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from steptime.measure.dtype import DTYPES, Dtype
from steptime.measure.mpi_carrier import MpiCarrier
from steptime.program.program import Ints
from steptime.replay.calls import GroupCall

Array = NDArray[Any]

# MPI cannot add halves: integers of the same size move the same bytes.
_HALF = Dtype("int16", "int16", 2, (1 << 15) - 1, 14)
_ELEMENTS = {"fp64": DTYPES["float64"], "fp32": DTYPES["float32"], "bf16": _HALF, "fp16": _HALF}


class _Ended:
    """A request under way."""

    def __init__(self, request: MPI.Request) -> None:
        self.request = request

    def done(self) -> bool:
        """Whether it is done; testing lets MPI go on with it."""
        return bool(self.request.Test())


class MpiCaller:
    """One rank of an MPI communicator."""

    def __init__(self, communicator: MPI.Intracomm) -> None:
        self.carrier = MpiCarrier(communicator)
        self._communicator = communicator
        self._groups: dict[tuple[str, ...], Any] = {}

    def element(self, dtype: str) -> Dtype:
        """The same dtype, or integers as large as a half."""
        return _ELEMENTS[dtype]

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Split the communicator into the sub-groups along ``axes``."""
        rank = self.carrier.rank
        color, place = (int(at[0]) for at in (groups == rank).nonzero())
        self._groups[axes] = self._communicator.Split(color, place)

    def begin(self, call: GroupCall) -> _Ended:
        """Begin a collective."""
        group, whole, part, root = self._groups[call.axes], call.whole, call.part, call.root
        here = group.Get_rank() == root
        match call.kind:
            case "all_reduce":
                request = group.Iallreduce(MPI.IN_PLACE, whole)
            case "broadcast":
                request = group.Ibcast(whole, root)
            case "reduce" if here:
                request = group.Ireduce(MPI.IN_PLACE, whole, MPI.SUM, root)
            case "reduce":
                request = group.Ireduce(whole, None, MPI.SUM, root)
            case "all_gather":
                request = group.Iallgather(part, whole)
            case "reduce_scatter":
                request = group.Ireduce_scatter_block(whole, part)
            case "all_to_all":
                request = group.Ialltoall(whole, part)
            case "gather":
                request = group.Igather(part, whole if here else None, root)
            case "scatter":
                request = group.Iscatter(whole if here else None, part, root)
            case _:
                request = group.Ibarrier()
        return _Ended(request)

    def send(self, vector: Array, to: int, tag: int) -> _Ended:
        """Begin to send to a rank."""
        return _Ended(self._communicator.Isend(vector, to, tag))

    def receive(self, vector: Array, source: int, tag: int) -> _Ended:
        """Begin to receive from a rank."""
        return _Ended(self._communicator.Irecv(vector, source, tag))

    def wait_for_any(self, pending: Sequence[Any]) -> None:
        """Return when one of them is done."""
        MPI.Request.Waitany([one.request for one in pending])

    def close(self) -> None:
        """Free the sub-groups."""
        for group in self._groups.values():
            group.Free()
        self._groups.clear()
