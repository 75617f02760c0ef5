"""Mail: messages between two ranks of a host, matched by tags.

A channel delivers messages in order. One that comes while another tag is asked for is kept in the
receiver's own memory until it is asked for itself, so a tag never blocks another.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch

from steptime.backend.flatten import flatten
from steptime.backend.host.channel import (
    CHANNEL_BYTES,
    LINE_BYTES,
    RING_BYTES,
    Channel,
    ChannelInC,
    Watch,
    channel,
)
from steptime.backend.host.kernel import route_in_c
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from steptime.backend.host._kernel import Lane, Route
    from steptime.backend.host.call import Call
    from steptime.backend.host.discovery import Peer
    from steptime.backend.host.members import Members

EAGER_BYTES = RING_BYTES - LINE_BYTES
"""A message up to this size can be sent to a rank that has not asked for one yet."""

_POLL_S = 200e-6
_HELP_S = 500e-6  # for which who waits to have sent something receives what comes


def bytes_needed(ranks: int) -> int:
    """Bytes of shared memory for the mail of so many ranks; untouched pages take none."""
    return ranks * ranks * CHANNEL_BYTES


@dataclass(frozen=True)
class _Message:
    call: Call
    tag: int
    payload: Tensor


@dataclass(eq=False)
class Expected:
    """A message that a queued call is to receive; any thread may put it into ``tensor``."""

    call: Call
    tensor: Tensor
    source: int
    tag: int
    received: bool = False


@dataclass(frozen=True)
class _Box:
    """The messages from one rank, or to it."""

    channel: Channel
    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: deque[_Message] = field(default_factory=deque)
    expected: deque[Expected] = field(default_factory=deque)
    """Changed with the lock, but for what is added."""


class Mail:
    """The mail of one member of a group, in ``memory`` (bytes_needed, zero at first)."""

    def __init__(
        self,
        memory: memoryview,
        peers: Sequence[Peer],
        members: Members,
        timeout_s: float,
        *,
        in_kernel: bool,
    ) -> None:
        ranks, rank = len(members.names), members.rank

        def box(source: int, to: int) -> _Box:
            start = (source * ranks + to) * CHANNEL_BYTES
            part = memory[start : start + CHANNEL_BYTES]
            return _Box(channel(part, peers[source], in_kernel=in_kernel))

        self._out = [box(rank, other) for other in range(ranks)]
        self._in = [box(other, rank) for other in range(ranks)]
        self._members = members
        self._timeout_s = timeout_s

    def route(self, direction: Literal["send", "recv"], peer: int, tag: int, lane: Lane) -> Route:
        """What sends to a rank, or receives from it, brief messages; of a Mail in C."""
        box = (self._out if direction == "send" else self._in)[peer]
        if not isinstance(box.channel, ChannelInC):
            raise TypeError("a route is a matter of channels in C")
        return route_in_c(
            box.channel.side,
            box.lock,
            box.kept,
            lane,
            self._members,
            self._members.names[peer],
            tag,
        )

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
        lock = box.lock
        if not lock.acquire(False):
            return False
        try:
            return box.channel.try_put(call, tag, tensor)
        finally:
            lock.release()

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

    def rests(self, to: int, number: int) -> bool:
        """Whether what was begun waits for a rank that needs nobody here to receive it."""
        box = self._out[to]
        return self._holds(box, box.channel.rests, number)

    def finish(self, call: Call, to: int, tag: int, number: int) -> None:
        """Return once what was begun has been sent.

        For a while it receives meanwhile what queued calls expect: of ranks that send to each
        other each would receive only when its own message had been taken, one after the other.
        """
        box = self._out[to]
        until = 0.0
        while not self._holds(box, box.channel.is_finished, number):
            now = time.monotonic()
            until = until or now + _HELP_S
            if not self._receive_expected() or now > until:
                break
            os.sched_yield()
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
        if source is not None:
            return self.receive(self.expect(call, tensor, source, tag))
        self._members.check()
        try:
            return self._recv_any(call, tensor, tag)
        finally:
            self._members.forget()

    def expect(self, call: Call, tensor: Tensor, source: int, tag: int) -> Expected:
        """Say what ``receive`` will be called for, so that other calls that wait may receive it."""
        expected = Expected(call, tensor, source, tag)
        self._in[source].expected.append(expected)
        return expected

    def receive(self, expected: Expected) -> int:
        """Receive a message, unless it has been received meanwhile; returns the sender."""
        box = self._in[expected.source]
        try:
            self._members.check()
            self._await(box, expected)
        finally:
            with box.lock:
                box.expected.remove(expected)
            self._members.forget()
        return expected.source

    def try_recv(self, call: Call, tensor: Tensor, source: int, tag: int, *, patient: bool) -> bool:
        """Receive from ``source`` if the next message is the one; returns whether it was.

        Who is patient looks for it for some microseconds.
        """
        self._members.check()
        box = self._in[source]
        lock = box.lock
        if box.kept or not lock.acquire(False):
            return False
        try:
            if box.kept or (patient and not box.channel.expect()):
                return False
            return box.channel.take(call, tag, tensor, self._watch(call, tag, lambda: (source,)))
        except BaseException as error:
            self._break(error, call, tag)
            raise
        finally:
            lock.release()

    def _await(self, box: _Box, of: Expected) -> None:
        watch = self._watch(of.call, of.tag, lambda: (of.source,))
        while True:
            with box.lock:
                seen = box.channel.written()
                of.received = of.received or self._take(of, watch)
                if of.received:
                    return
            box.channel.await_more(seen, watch)

    @staticmethod
    def _holds(box: _Box, condition: Callable[[int], bool], number: int) -> bool:
        """Whether a condition holds of what was begun; not while another thread uses the box."""
        if not box.lock.acquire(False):
            return False
        try:
            return condition(number)
        finally:
            box.lock.release()

    def _receive_expected(self) -> bool:
        """Receive, from each rank, the message that was expected first, if it is the next one.

        Returns whether any is expected still.
        """
        missing = False
        for box in self._in:
            if not box.expected or not box.lock.acquire(False):
                continue
            try:
                first = next((one for one in tuple(box.expected) if not one.received), None)
                if first is not None and not box.kept:
                    watch = self._watch(first.call, first.tag, partial(tuple, (first.source,)))
                    first.received = box.channel.take(first.call, first.tag, first.tensor, watch)
                missing |= first is not None and not first.received
            finally:
                box.lock.release()
        return missing

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
                    if self._take(Expected(call, tensor, source, tag), watch):
                        return source
            time.sleep(_POLL_S)
            watch(time.monotonic() - begun, partial(_nothing_new, channels, seen))

    def _take(self, of: Expected, watch: Watch) -> bool:
        """Take the first arrived message with the tag; False where there is none."""
        source, call, tensor, tag = of.source, of.call, of.tensor, of.tag
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
            sent, its = head
            wanted = its == tag and sent.has_size_of(call)
            payload = tensor if wanted else torch.empty(sent.bytes, dtype=torch.uint8)
            try:
                box.channel.get(payload, watch)
            except BaseException as error:
                self._break(error, call, tag)
                raise
            if wanted:
                return True
            if its == tag:
                self._compare(source, sent, call, tag)
            box.kept.append(_Message(sent, its, payload))
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
