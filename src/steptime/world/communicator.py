"""Communicator: collectives of a group that count their bytes and record their time."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor

from steptime.clock import COMPUTING
from steptime.collectives.call_bytes import Traffic, member_bytes
from steptime.timeline import Phase, Recorder, recording
from steptime.world import compat


class Called(NamedTuple):
    """A call that was made: its kind, the bytes of its whole vector, and the peer of a message."""

    kind: str
    nbytes: int
    peer: int | None = None


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

    @property
    def known_done(self) -> bool:
        """Whether it is done, as far as the backend tells before anyone waits: gloo does not."""
        return self._handle is None or self._handle.is_completed()

    def wait(self) -> None:
        """Block until the collective is done (on a GPU: make the current stream wait for it).

        Raises RuntimeError, as torch does, when another rank is lost or the time is out.
        """
        if self._handle is None:
            return
        COMPUTING.lap()
        with recording(self._recorder, "compute", "wait", Phase.WAIT):
            self._handle.wait()
            if self._finish:  # within: what a rank waited for is over when it goes on
                self._finish()
        COMPUTING.begin()


class Communicator:
    """One rank's collectives, which start at once and return a Work to wait for.

    ``group``: its ranks; default: all. ``rank`` and ``ranks`` count within it, as roots do. In a
    group of one rank the calls do nothing. ``recorder`` gets an interval on the stream ``comm``
    from start to completion, named after the call, the ``axis`` and of a message the other rank;
    None records nothing.
    ``traffic`` counts the bytes that the calls so far make this rank send and receive, ``calls``
    what was called, in order, where somebody sets it to a list.
    """

    def __init__(
        self,
        recorder: Recorder | None = None,
        group: dist.ProcessGroup | None = None,
        axis: str = "",
    ) -> None:
        self.group = group
        self.axis = axis
        self.rank = dist.get_rank(group)
        self.ranks = dist.get_world_size(group)
        self.recorder = recorder
        self.traffic = Traffic(0, 0)
        self.calls: list[Called] | None = None

    def all_reduce(self, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> Work:
        """Sum ``tensor`` over all ranks, in place; ``op``: do another thing than to sum."""
        return self._start(
            "all_reduce",
            tensor,
            0,
            lambda: dist.all_reduce(tensor, op, group=self.group, async_op=True),
        )

    def reduce(self, tensor: Tensor, root: int) -> Work:
        """Sum ``tensor`` over all ranks into that of ``root``; the others' become scratch."""
        return self._start(
            "reduce",
            tensor,
            root,
            lambda: dist.reduce(tensor, group=self.group, async_op=True, group_dst=root),
        )

    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Copy the ``tensor`` of ``root`` into every rank's."""
        return self._start(
            "broadcast",
            tensor,
            root,
            lambda: dist.broadcast(tensor, group=self.group, async_op=True, group_src=root),
        )

    def reduce_scatter(self, tensor: Tensor) -> Work:
        """Sum 1-D ``tensor`` over all ranks; this rank's equal share of it gets its sum."""
        shard = self.shard(tensor)
        return self._start(
            "reduce_scatter",
            tensor,
            0,
            lambda: compat.reduce_scatter_single(shard, tensor, group=self.group, async_op=True),
        )

    def all_gather(self, tensor: Tensor) -> Work:
        """Fill 1-D ``tensor`` with every rank's share of it."""
        shard = self.shard(tensor)
        return self._start(
            "all_gather",
            tensor,
            0,
            lambda: compat.all_gather_single(tensor, shard, group=self.group, async_op=True),
        )

    def exchange(
        self, tensor: Tensor, sends: list[int], receives: list[int]
    ) -> tuple[Tensor, Work]:
        """An all_to_all of unequal parts: how many rows go to, and come from, each rank.

        Returns the rows that arrive, rank by rank, to be read when the work is done.
        """
        arrives = tensor.new_empty((sum(receives), *tensor.shape[1:]))
        row = tensor[:1].nbytes or arrives[:1].nbytes
        others = [sum(rows) - rows[self.rank] for rows in (sends, receives)]
        self._note("all_to_all", tensor.nbytes, Traffic(others[0] * row, others[1] * row))
        work = self._begin(
            "all_to_all",
            tensor.nbytes,
            lambda: dist.all_to_all_single(
                arrives, tensor, receives, sends, group=self.group, async_op=True
            ),
        )
        return arrives, work

    def send(self, tensor: Tensor, to: int, tag: int = 0) -> Work:
        """Send ``tensor`` to a rank, which receives it; it must stay as it is until that is done.

        Messages from one rank to another with one tag arrive in order.
        """
        self._note("send", tensor.nbytes, Traffic(tensor.nbytes, 0), to)
        return self._begin(
            "send",
            tensor.nbytes,
            lambda: dist.isend(tensor, group=self.group, group_dst=to, tag=tag),
            to,
        )

    def receive(self, tensor: Tensor, source: int, tag: int = 0) -> Work:
        """Receive from a rank into ``tensor``, to be read when the work is done."""
        self._note("receive", tensor.nbytes, Traffic(0, tensor.nbytes), source)
        return self._begin(
            "receive",
            tensor.nbytes,
            lambda: dist.irecv(tensor, group=self.group, group_src=source, tag=tag),
            source,
        )

    def barrier(self) -> Work:
        """Wait for all ranks; no bytes are counted."""
        return self._start("barrier", None, 0, lambda: dist.barrier(self.group, async_op=True))

    def shard(self, tensor: Tensor) -> Tensor:
        """This rank's equal share of a 1-D tensor whose length the ranks divide."""
        return tensor.chunk(self.ranks)[self.rank]

    def _start(self, kind: str, tensor: Tensor | None, root: int, call: Callable[[], Any]) -> Work:
        if self.ranks == 1:
            return Work(None)
        payload = 0 if tensor is None else tensor.nbytes
        self._note(kind, payload, member_bytes(kind, payload, self.rank, self.ranks, root))
        return self._begin(kind, payload, call)

    def _note(self, kind: str, payload: int, moved: Traffic, peer: int | None = None) -> None:
        self.traffic = self.traffic.plus(moved)
        if self.calls is not None:
            self.calls.append(Called(kind, payload, peer))

    def _begin(
        self, kind: str, payload: int, call: Callable[[], Any], peer: int | None = None
    ) -> Work:
        COMPUTING.lap()
        words = (kind, self.axis, "" if peer is None else str(peer))
        name = " ".join(filter(None, words))
        finish = _interval(self.recorder, name, payload) if self.recorder else None
        handle = call()
        COMPUTING.pass_over()
        if finish is None:
            return Work(handle)
        # The end is told the moment the call completes, which may be long before anyone waits for
        # it. Only gloo's reduce_scatter and its messages have no future: they complete in wait().
        # Of a call of our own backend a future would have another thread make it.
        if when_done := getattr(handle, "when_done", None):
            when_done(lambda _: finish())
        else:
            with suppress(RuntimeError):
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
