"""Mesh: the messages of one rank of a group to and from all others."""

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping

from steptime.backend.sockets.moving import Job, mover
from steptime.backend.sockets.patience import Patience
from steptime.backend.sockets.peer import LostPeerError, Peer
from steptime.backend.sockets.requests import Receipt, Sending

_NAP_S = 0.5
_GRACE_S = 1.0


class Mesh:
    """Messages by tag between any two ranks; those of one tag arrive in the order of sending.

    Small messages leave at once, whether they are asked for or not; of large ones the kernel takes
    what it has room for. Bytes move while any thread calls a method; of several threads that wait,
    one moves what all of them wait for.
    """

    def __init__(self, peers: Mapping[int, Peer]) -> None:
        """The connected ``peers`` of this rank, by rank."""
        self._peers = peers
        self._changed = threading.Condition(threading.Lock())
        self._moving = self._asleep = False
        self._closed = False
        self._anywhere: list[Receipt] = []
        self._patience = Patience()
        self._move_bytes = mover()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._bell)

    def send(self, call: bytes, to: int, tag: int, payload: memoryview) -> Sending:
        """Begin to send ``payload``, which must stay as it is until the result is done."""
        with self._changed:
            peer = self._peers[to]
            self._raise_if_closed()
            if peer.gone:
                return Sending(1, lost=True)
            try:
                sending = peer.send(call, tag, payload)
            except OSError:
                self._lose(peer)
                return Sending(1, lost=True)
            if not sending.done:
                self._ring()
            return sending

    def receive(self, source: int | None, tag: int, target: memoryview | None = None) -> Receipt:
        """Ask for a message of ``source``, or of any rank, into ``target`` if its size is known."""
        receipt = Receipt(tag, target)
        with self._changed:
            self._raise_if_closed()
            peers = self._peers.values() if source is None else (self._peers[source],)
            if any(peer.claim(receipt) for peer in peers):
                self._ring()
                return receipt
            there = [peer for peer in peers if not peer.gone]
            receipt.lost = not there
            if source is None:
                self._anywhere.append(receipt)
            for peer in there:
                peer.ask(receipt)
            for peer in there:
                if peer.staged:
                    self._serve(peer, peer.read)
            self._ring()
        return receipt

    def wait(self, request: Sending | Receipt, limit_s: float) -> None:
        """Return when a request is done.

        Raises TimeoutError after ``limit_s`` seconds, LostPeerError when its other side is gone.
        """
        if request.done:
            return
        until = time.monotonic() + limit_s
        with self._changed:
            while not request.done:
                self._raise_if_closed()
                if request.lost:
                    raise LostPeerError("the rank at the other side is gone")
                if not self._moving:
                    self._move(request, until)
                elif not self._changed.wait(until - time.monotonic()):
                    raise TimeoutError

    def close(self) -> None:
        """Close all connections; whoever waits fails."""
        self._closed = True
        for peer in self._peers.values():
            for pipe in peer.pipes:
                pipe.shut()
        os.eventfd_write(self._bell, 1)
        # Not for ever: the interpreter may call this in the midst of what it does for the mesh.
        if self._changed.acquire(timeout=_GRACE_S):
            try:
                if not self._moving:
                    self._free()
            finally:
                self._changed.release()

    def _free(self) -> None:
        """Give the connections back; no thread looks at them any more."""
        for peer in self._peers.values():
            for pipe in peer.pipes:
                pipe.socket.close()

    def _move(self, request: Sending | Receipt, until: float) -> None:
        """Move bytes until a request is done or lost; the lock is held but while this waits."""
        self._moving = True
        try:
            while not (request.done or request.lost or self._closed):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self._step(min(_NAP_S, left_s))
                self._changed.notify_all()  # what others wait for may be done before this is
        finally:
            self._moving = False
            if self._closed:
                self._free()
            self._changed.notify_all()

    def _step(self, nap_s: float) -> None:
        """Move bytes as soon as any can be moved; the lock is free meanwhile."""
        works = [work for peer in self._peers.values() for work in peer.work()]
        jobs: list[Job] = [(self._bell, select.POLLIN, None), *(work.job for work in works)]
        look_s = self._patience.look_s()
        self._asleep = True
        self._changed.release()
        try:
            slept, moved = self._move_bytes(jobs, look_s, nap_s)
        finally:
            self._changed.acquire()
            self._asleep = False
        self._patience.learn(look_s, slept=slept)
        if moved[0]:
            os.eventfd_read(self._bell)
        done = [(work, result) for work, result in zip(works, moved[1:], strict=True) if result]
        for work, result in done:
            self._serve(work.peer, work.peer.did, work, result)
        for peer in {work.peer for work, _ in done if work.event == select.POLLIN}:
            self._serve(peer, peer.read)

    def _serve(self, peer: Peer, action: Callable[..., None], *arguments: object) -> None:
        """Do something with a peer's pipes, and see what that has changed for others."""
        try:
            if not peer.gone:
                action(*arguments)
        except OSError:
            self._lose(peer)
        for receipt in [one for one in self._anywhere if one.source >= 0]:
            self._anywhere.remove(receipt)
            for other in self._peers.values():
                other.forget(receipt)

    def _ring(self) -> None:
        """Let a thread that sleeps until bytes come look at what it is to wait for now."""
        if self._asleep:
            os.eventfd_write(self._bell, 1)

    def _lose(self, peer: Peer) -> None:
        """Nothing more is to be had of a peer; of a message from anywhere only if all are gone."""
        asked = peer.lose()
        alone = all(other.gone for other in self._peers.values())
        for receipt in asked:
            receipt.lost = alone or receipt not in self._anywhere

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise LostPeerError("this rank has left the group")
