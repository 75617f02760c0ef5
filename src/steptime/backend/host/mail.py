"""Mail: messages between two ranks of a host, matched by tags.

A channel delivers messages in order. One that comes while another tag is asked for is kept in the
receiver's own memory until it is asked for itself, so a tag never blocks another.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch

from steptime.backend.flatten import flatten
from steptime.backend.host.channel import (
    CHANNEL_BYTES,
    LINE_BYTES,
    RING_BYTES,
    Channel,
    Watch,
    channel,
)
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from steptime.backend.host.call import Call
    from steptime.backend.host.members import Members

EAGER_BYTES = RING_BYTES - LINE_BYTES
"""A message up to this size can be sent to a rank that has not asked for one yet."""

_POLL_S = 200e-6


def bytes_needed(ranks: int) -> int:
    """Bytes of shared memory for the mail of so many ranks; untouched pages take none."""
    return ranks * ranks * CHANNEL_BYTES


@dataclass(frozen=True)
class _Message:
    call: Call
    tag: int
    payload: Tensor


@dataclass(frozen=True)
class _Box:
    """The messages from one rank, or to it."""

    channel: Channel
    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: deque[_Message] = field(default_factory=deque)


class Mail:
    """The mail of one member of a group, in ``memory`` (bytes_needed, zero at first)."""

    def __init__(
        self, memory: memoryview, members: Members, timeout_s: float, *, in_kernel: bool
    ) -> None:
        ranks, rank = len(members.names), members.rank

        def box(source: int, to: int) -> _Box:
            start = (source * ranks + to) * CHANNEL_BYTES
            part = memory[start : start + CHANNEL_BYTES]
            return _Box(channel(part, members.pid(source), in_kernel=in_kernel))

        self._out = [box(rank, other) for other in range(ranks)]
        self._in = [box(other, rank) for other in range(ranks)]
        self._members = members
        self._timeout_s = timeout_s

    def send(self, call: Call, tensor: Tensor, to: int, tag: int) -> None:
        """Send ``tensor`` to a rank; returns once it may be changed."""
        self._members.check()
        box = self._out[to]
        try:
            with box.lock:
                box.channel.put(call, tag, tensor, self._watch(call, tag, lambda: (to,)))
        except BaseException as error:
            self._break(error, call, tag)
            raise
        finally:
            self._members.forget()

    def try_send(self, call: Call, tensor: Tensor, to: int, tag: int) -> bool:
        """Send ``tensor`` to a rank if there is room for it now; returns whether there was."""
        self._members.check()
        box = self._out[to]
        if not box.lock.acquire(blocking=False):
            return False
        try:
            return box.channel.try_put(call, tag, tensor)
        finally:
            box.lock.release()

    def offer(self, call: Call, tensor: Tensor, to: int, tag: int) -> int:
        """Begin to send ``tensor`` if that needs no waiting; returns its number, or 0.

        ``finish`` waits until it may be changed.
        """
        self._members.check()
        box = self._out[to]
        if not box.lock.acquire(blocking=False):
            return 0
        try:
            return box.channel.offer(call, tag, tensor)
        finally:
            box.lock.release()

    def finish(self, call: Call, to: int, tag: int, number: int) -> None:
        """Return once what was begun has been sent."""
        box = self._out[to]
        try:
            with box.lock:
                box.channel.finish(number, self._watch(call, tag, lambda: (to,)))
        except BaseException as error:
            self._break(error, call, tag)
            raise
        finally:
            self._members.forget()

    def recv(self, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive from ``source``, or from any rank where it is None; returns the sender."""
        self._members.check()
        try:
            if source is None:
                return self._recv_any(call, tensor, tag)
            return self._recv_from(source, call, tensor, tag)
        finally:
            self._members.forget()

    def try_recv(self, call: Call, tensor: Tensor, source: int, tag: int) -> bool:
        """Receive from ``source`` if the next message is the one; returns whether it was."""
        self._members.check()
        box = self._in[source]
        if box.kept or not box.lock.acquire(blocking=False):
            return False
        try:
            watch = self._watch(call, tag, lambda: (source,))
            return not box.kept and box.channel.take(call, tag, tensor, watch)
        except BaseException as error:
            self._break(error, call, tag)
            raise
        finally:
            box.lock.release()

    def _recv_from(self, source: int, call: Call, tensor: Tensor, tag: int) -> int:
        box, watch = self._in[source], self._watch(call, tag, lambda: (source,))
        while True:
            with box.lock:
                seen = box.channel.written()
                if self._take(source, call, tensor, tag, watch):
                    return source
            box.channel.await_more(seen, watch)

    def _recv_any(self, call: Call, tensor: Tensor, tag: int) -> int:
        others = [rank for rank in range(len(self._in)) if rank != self._members.rank]
        # Those who left send no more, which matters when there is nobody else.
        watch = self._watch(
            call, tag, lambda: [r for r in others if not self._members.left(r)] or others
        )
        channels = [self._in[rank].channel for rank in others]
        begun = time.monotonic()
        while True:
            seen = [channel.written() for channel in channels]
            for source in others:
                with self._in[source].lock:
                    if self._take(source, call, tensor, tag, watch):
                        return source
            time.sleep(_POLL_S)
            watch(time.monotonic() - begun, partial(_nothing_new, channels, seen))

    def _take(self, source: int, call: Call, tensor: Tensor, tag: int, watch: Watch) -> bool:
        """Take the first arrived message with the tag; False where there is none."""
        box = self._in[source]
        if not box.kept and box.channel.take(call, tag, tensor, watch):
            return True
        for message in box.kept:
            if message.tag == tag:
                box.kept.remove(message)
                self._compare(source, message.call, call, tag)
                flatten(tensor).view(torch.uint8).copy_(message.payload)
                return True
        while (head := box.channel.next()) is not None:
            sent, of = head
            wanted = of == tag and sent.has_size_of(call)
            payload = tensor if wanted else torch.empty(sent.bytes, dtype=torch.uint8)
            try:
                box.channel.get(payload, watch)
            except BaseException as error:
                self._break(error, call, tag)
                raise
            if wanted:
                return True
            if of == tag:
                self._compare(source, sent, call, tag)
            box.kept.append(_Message(sent, of, payload))
        return False

    def _break(self, error: BaseException, call: Call, tag: int) -> None:
        """Tell the others that this rank has left a message half done."""
        if not isinstance(error, SteptimeError):
            what = f"failed in {call}, tag {tag}: {type(error).__name__}: {error}"
            own = self._members.name(self._members.rank)
            self._members.fail(LostContactError(f"{own} {what}"))

    def _compare(self, source: int, sent: Call, call: Call, tag: int) -> None:
        if not sent.has_size_of(call):
            names = self._members.names
            raise SteptimeError(
                f"rank {names[source]} called {sent} with tag {tag}, for which rank "
                f"{names[self._members.rank]} called {call}: size and dtype must be the same"
            )

    def _watch(self, call: Call, tag: int, awaited: Callable[[], Sequence[int]]) -> Watch:
        """The Watch of a call that waits: it raises when the other side cannot come, or is late."""
        names = self._members.names

        def watch(waited_s: float, waiting: Callable[[], bool]) -> None:
            what = f"{call}, tag {tag}"
            own = f"rank {names[self._members.rank]}"
            if len(awaited()) == 1:  # any of several can end the wait
                self._members.tell(awaited(), what)
            self._members.watch(
                lambda: awaited() if waiting() else (), f"while {own} was in {what}"
            )
            if waited_s > self._timeout_s and waiting():
                late = " or ".join(self._members.name(other) for other in awaited())
                limit = f"the timeout of {self._timeout_s:g} s"
                otherwise = f"{own} reached {limit} waiting for {late} in {what}"
                raise self._members.late(awaited(), what, self._timeout_s, otherwise)

        return watch


def _nothing_new(channels: Sequence[Channel], written: Sequence[int]) -> bool:
    return all(channel.written() == seen for channel, seen in zip(channels, written, strict=True))
