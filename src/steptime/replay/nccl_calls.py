"""Calls by NCCL: every rank on its own GPU, and what keeps a GPU busy meanwhile."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.errors import UsageError
from steptime.measure.torch_carrier import TorchCarrier
from steptime.replay.calls import Begin, GroupCall
from steptime.replay.standin import Poll, StandIn
from steptime.replay.torch_calls import TorchCaller
from steptime.world.compat import has_nccl

_LOOK_S = 20e-6
_WIDTH = 2048  # of the matrices that a GPU multiplies
_BURSTS, _PRODUCTS = 10, 20


def check_gpus(ranks_here: int) -> None:
    """Raise UsageError where this host has no GPU of its own for each of its ranks, or no NCCL."""
    gpus = torch.cuda.device_count() if has_nccl() else 0
    if gpus < ranks_here:
        raise UsageError(
            f"the backend nccl needs a GPU for every rank, and {ranks_here} ranks are to run on "
            f"this host, where torch can use {gpus} with NCCL: choose fewer ranks, or --backend "
            "gloo, steptime or mpi"
        )


class _Started:
    """Calls that the library goes on with by itself."""

    def __init__(self, works: Sequence[Any]) -> None:
        self._works = works

    def done(self) -> bool:
        """Whether all are done; raises what made one fail."""
        if not all(work.is_completed() for work in self._works):
            return False
        for work in self._works:
            work.wait()
        return True


class NcclCaller(TorchCaller):
    """One rank of torch.distributed on ``device``, whose calls tell whether they are done.

    NCCL runs the messages between two ranks of a group one after another, whatever their
    direction: so those to higher ranks and those to lower ones have a group each. It knows no
    tags: messages of one direction must begin in the same order at both ends.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(TorchCarrier(device))
        self._up, self._down = dist.new_group(), dist.new_group()

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Connect every sender to its receiver, in an order in which none waits in a circle."""
        rank, device = self.carrier.rank, self.carrier.device
        for source, to in sorted(pairs):
            if rank in (source, to) and source != to:
                group, probe = self._way(source, to), torch.zeros(1, device=device)
                if rank == source:
                    dist.send(probe, to, group)
                else:
                    dist.recv(probe, source, group)
        self.carrier.finish()

    def _way(self, source: int, to: int) -> Any:
        return self._up if source < to else self._down

    def blocking(self, call: GroupCall) -> Callable[[], object] | None:
        """Nothing: on a GPU a call returns before it is done."""
        del call
        return None

    def send(self, pieces: Sequence[Tensor], to: int, tag: int) -> Begin:
        """Make a message to a rank ready."""
        del tag
        group = self._way(self.carrier.rank, to)
        return lambda: _Started([dist.isend(piece, to, group) for piece in pieces])

    def receive(self, pieces: Sequence[Tensor], source: int, tag: int) -> Begin:
        """Make a message from a rank ready."""
        del tag
        group = self._way(source, self.carrier.rank)
        return lambda: _Started([dist.irecv(piece, source, group) for piece in pieces])

    def _ended(self, works: Sequence[Any]) -> _Started:
        return _Started(works)

    def wait_for_any(self, pending: Sequence[Any]) -> None:
        """Return when one of them is done."""
        while not any(one.done() for one in pending):
            time.sleep(_LOOK_S)


def busy_gpu(device: torch.device) -> StandIn:
    """As many products of matrices as this GPU does in the time when nothing else runs on it."""
    matrix = torch.ones(_WIDTH, _WIDTH, dtype=torch.bfloat16, device=device)
    product = torch.empty_like(matrix)
    stream = torch.cuda.Stream(device)

    def multiply(times: int) -> torch.cuda.Event:
        end = torch.cuda.Event()
        with torch.cuda.stream(stream):
            for _ in range(times):
                torch.mm(matrix, matrix, out=product)
            end.record(stream)
        return end

    each_s = min(_product_s(multiply) for _ in range(_BURSTS))

    def work(seconds: float, poll: Poll) -> None:
        end = multiply(round(seconds / each_s))
        while not end.query():
            poll()
            time.sleep(_LOOK_S)

    return work


def _product_s(multiply: Callable[[int], torch.cuda.Event]) -> float:
    """Seconds of one product when many follow one another."""
    multiply(1).synchronize()
    start = time.perf_counter()
    multiply(_PRODUCTS).synchronize()
    return (time.perf_counter() - start) / _PRODUCTS
