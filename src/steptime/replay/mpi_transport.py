"""The ReplayTransport of MPI: mpi4py on NumPy arrays. torch is never imported."""

from collections.abc import Callable, Sequence
from math import inf
from os import sched_yield
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from steptime import clock
from steptime.arrays import Ints
from steptime.dtypes import BY_SHORT_NAME, Dtype
from steptime.measure.mpi_transport import MpiTransport
from steptime.replay.transport import Begin, GroupCall

Array = NDArray[Any]

_SLICE_S = 0.5e-3 / clock.DILATION  # of the machine's own time, however slow the clock is

# MPI cannot add halves: integers of the same size move the same bytes.
_HALF = Dtype("int16", "int16", "int16", 2, (1 << 15) - 1, 14)
_ELEMENTS = BY_SHORT_NAME | {"bf16": _HALF, "fp16": _HALF}


class _One:
    """A request in progress. Testing it lets MPI make progress."""

    __slots__ = ("done", "requests")

    def __init__(self, request: MPI.Request) -> None:
        self.requests = (request,)
        self.done: Callable[[], bool] = request.Test


class _Several:
    """The requests of one message."""

    def __init__(self, requests: list[MPI.Request]) -> None:
        self.requests = requests

    def done(self) -> bool:
        """Whether all are done."""
        return bool(MPI.Request.Testall(self.requests))


class MpiReplayTransport:
    """One rank of an MPI communicator."""

    sums_in_place = False

    def __init__(self, communicator: MPI.Intracomm) -> None:
        self.world = MpiTransport(communicator)
        self._communicator = communicator
        self._groups: dict[tuple[str, ...], Any] = {}
        self._yields = self.world.library.startswith("Open MPI")

    def element(self, dtype: str) -> Dtype:
        """The same dtype, or integers as large as a half."""
        return _ELEMENTS[dtype]

    def vector(self, elements: int, dtype: Dtype) -> Array:
        """A new array."""
        return self.world.empty(elements, dtype)

    def form_groups(self, axes: tuple[str, ...], groups: Ints) -> None:
        """Split the communicator into the sub-groups along ``axes``."""
        rank = self.world.rank
        color, place = (int(at[0]) for at in (groups == rank).nonzero())
        self._groups[axes] = self._communicator.Split(color, place)

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Do nothing: MPI connects ranks itself."""

    def collective(self, call: GroupCall) -> Begin:
        """Prepare a collective."""
        function, arguments = self._collective(call)
        return lambda: _One(function(*arguments))

    def _collective(self, call: GroupCall) -> tuple[Callable[..., MPI.Request], tuple[Any, ...]]:
        group, whole, part, root = self._groups[call.axes], call.whole, call.part, call.root
        here = group.Get_rank() == root
        match call.kind:
            case "all_reduce":
                return group.Iallreduce, (part if len(part) else MPI.IN_PLACE, whole)
            case "broadcast":
                return group.Ibcast, (whole, root)
            case "reduce" if here:
                return group.Ireduce, (MPI.IN_PLACE, whole, MPI.SUM, root)
            case "reduce":
                return group.Ireduce, (whole, None, MPI.SUM, root)
            case "all_gather":
                return group.Iallgather, (part, whole)
            case "reduce_scatter":
                return group.Ireduce_scatter_block, (whole, part)
            case "all_to_all":
                return group.Ialltoall, (whole, part)
            case "gather":
                return group.Igather, (part, whole if here else None, root)
            case "scatter":
                return group.Iscatter, (whole if here else None, part, root)
        return group.Ibarrier, ()

    def blocking(self, call: GroupCall) -> Callable[[], float] | None:
        """None: MPI does not match a blocking collective with other ranks' non-blocking ones."""
        del call
        return None

    def send(self, pieces: Sequence[Array], to: int, tag: int) -> Begin:
        """Prepare a message to a rank."""
        return self._message(self._communicator.Isend, pieces, to, tag)

    def receive(self, pieces: Sequence[Array], source: int, tag: int) -> Begin:
        """Prepare a message from a rank."""
        return self._message(self._communicator.Irecv, pieces, source, tag)

    def _message(
        self, function: Callable[..., MPI.Request], pieces: Sequence[Array], rank: int, tag: int
    ) -> Begin:
        if len(pieces) == 1:
            piece = pieces[0]
            return lambda: _One(function(piece, rank, tag))
        return lambda: _Several([function(piece, rank, tag) for piece in pieces])

    def wait_for_any(self, pending: Sequence[Any], seconds: float = inf) -> None:
        """Return when one of them is done; with a limit, after half a millisecond at the latest.

        MPI has no waiting with a limit, and it makes progress only when it is asked: the one who
        does so again and again leaves the core in between.
        Where ranks share cores Open MPI yields the core while it waits. MPICH keeps it until its
        time slice ends, though another rank may need it to send what is awaited.
        """
        if seconds < inf:
            clock.sleep(min(seconds, _SLICE_S))
            return
        if self._yields:
            MPI.Request.Waitany([request for one in pending for request in one.requests])
            return
        tests = [one.done for one in pending]
        while not any(test() for test in tests):
            sched_yield()

    def close(self) -> None:
        """Free the sub-groups."""
        for group in self._groups.values():
            group.Free()
        self._groups.clear()
