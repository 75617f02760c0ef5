"""The ReplayTransport of NCCL: every rank on its own GPU."""

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime import clock
from steptime.measure.torch_transport import TorchTransport
from steptime.replay.torch_transport import TorchReplayTransport
from steptime.replay.transport import Begin, GroupCall

_LOOK_S = 20e-6


class _Started:
    """Calls that NCCL runs by itself."""

    def __init__(self, works: Sequence[Any]) -> None:
        self._works = works

    def done(self) -> bool:
        """Whether all are done; raises what made one fail."""
        if not all(work.is_completed() for work in self._works):
            return False
        for work in self._works:
            work.wait()
        return True


class NcclReplayTransport(TorchReplayTransport):
    """One rank of torch.distributed on ``device``, whose calls can be tested for their end.

    NCCL runs the messages between two ranks of a group one after another, whatever their direction:
    so messages to higher ranks and to lower ones have a group each. It has no tags: messages of one
    direction must begin in the same order at both ends.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(TorchTransport(device))
        self._up, self._down = dist.new_group(), dist.new_group()

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Connect every sender to its receiver, in an order that cannot deadlock."""
        rank, device = self.world.rank, self.world.device
        for source, to in sorted(pairs):
            if rank in (source, to) and source != to:
                group, probe = self._group_for(source, to), torch.zeros(1, device=device)
                if rank == source:
                    dist.send(probe, to, group)
                else:
                    dist.recv(probe, source, group)
        self.world.finish()

    def _group_for(self, source: int, to: int) -> Any:
        return self._up if source < to else self._down

    def blocking(self, call: GroupCall) -> Callable[[], float] | None:
        """None: on a GPU a call returns before it is done anyway."""
        del call
        return None

    def send(self, pieces: Sequence[Tensor], to: int, tag: int) -> Begin:
        """Prepare a message to a rank."""
        del tag
        group = self._group_for(self.world.rank, to)
        return lambda: _Started([dist.isend(piece, to, group) for piece in pieces])

    def receive(self, pieces: Sequence[Tensor], source: int, tag: int) -> Begin:
        """Prepare a message from a rank."""
        del tag
        group = self._group_for(source, self.world.rank)
        return lambda: _Started([dist.irecv(piece, source, group) for piece in pieces])

    def _ended(self, works: Sequence[Any]) -> _Started:
        return _Started(works)

    def wait_for_any(self, pending: Sequence[Any], seconds: float = inf) -> None:
        """Return when one of them is done, after so many seconds of the clock at the latest."""
        limit = clock.now() + seconds
        while not any(one.done() for one in pending) and clock.now() < limit:
            time.sleep(_LOOK_S)
