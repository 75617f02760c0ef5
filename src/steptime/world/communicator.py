"""Communicator: collectives over all ranks that count their bytes and record their time."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from torch import Tensor

from steptime.collectives.call_bytes import Traffic, member_bytes
from steptime.timeline import Phase, Recorder, recording


class Work:
    """A collective in progress."""

    def __init__(
        self,
        handle: Any,
        recorder: Recorder | None = None,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._handle = handle
        self._recorder = recorder
        self._finish = finish

    def wait(self) -> None:
        """Block until the collective is done (on a GPU: make the current stream wait for it).

        Raises RuntimeError, as torch does, when another rank is lost or the time is out.
        """
        if self._handle is None:
            return
        with recording(self._recorder, "compute", "wait", Phase.WAIT):
            self._handle.wait()
        if self._finish:
            self._finish()


class Communicator:
    """One rank's collectives, which start at once and return a Work to wait for.

    In a world of one rank the calls do nothing. ``recorder`` gets an interval on the stream
    ``comm`` from start to completion; None records nothing. ``traffic`` counts the bytes that the
    calls so far make this rank send and receive.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self.recorder = recorder
        self.traffic = Traffic(0, 0)

    def all_reduce(self, tensor: Tensor) -> Work:
        """Sum ``tensor`` over all ranks, in place."""
        return self._start("all_reduce", tensor, 0, lambda: dist.all_reduce(tensor, async_op=True))

    def reduce(self, tensor: Tensor, root: int) -> Work:
        """Sum ``tensor`` over all ranks into that of ``root``; the others' become scratch."""
        return self._start("reduce", tensor, root, lambda: dist.reduce(tensor, root, async_op=True))

    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Copy the ``tensor`` of ``root`` into every rank's."""
        return self._start(
            "broadcast", tensor, root, lambda: dist.broadcast(tensor, root, async_op=True)
        )

    def reduce_scatter(self, tensor: Tensor) -> Work:
        """Sum 1-D ``tensor`` over all ranks; this rank's equal share of it gets its sum."""
        shard = self.shard(tensor)
        return self._start(
            "reduce_scatter",
            tensor,
            0,
            lambda: dist.reduce_scatter_single(shard, tensor, async_op=True),
        )

    def all_gather(self, tensor: Tensor) -> Work:
        """Fill 1-D ``tensor`` with every rank's share of it."""
        shard = self.shard(tensor)
        return self._start(
            "all_gather", tensor, 0, lambda: dist.all_gather_single(tensor, shard, async_op=True)
        )

    def barrier(self) -> Work:
        """Wait for all ranks; no bytes are counted."""
        return self._start("barrier", None, 0, lambda: dist.barrier(async_op=True))

    def shard(self, tensor: Tensor) -> Tensor:
        """This rank's equal share of a 1-D tensor whose length the ranks divide."""
        return tensor.chunk(self.ranks)[self.rank]

    def _start(self, kind: str, tensor: Tensor | None, root: int, call: Callable[[], Any]) -> Work:
        if self.ranks == 1:
            return Work(None)
        payload = 0 if tensor is None else tensor.nbytes
        self.traffic = self.traffic.plus(member_bytes(kind, payload, self.rank, self.ranks, root))
        if self.recorder is None:
            return Work(call())
        finish = _interval(self.recorder, kind, payload)
        handle = call()
        with suppress(RuntimeError):
            # The callback runs on the backend's own thread the moment the collective completes,
            # which may be long before anyone waits for it. Only gloo's reduce_scatter has no
            # future: its last copy runs inside wait(), so there it does complete.
            handle.get_future().then(lambda _: finish())
        return Work(handle, self.recorder, finish)


def _interval(recorder: Recorder, name: str, payload: int) -> Callable[[], None]:
    """Begin an interval now; the first call of the result ends it, later ones do nothing."""
    start, step = recorder.clock(), recorder.step
    closed: list[bool] = []

    def finish() -> None:
        if not closed:
            closed.append(True)
            recorder.add("comm", name, Phase.COMMUNICATION, start, recorder.clock(), payload, step)

    return finish
