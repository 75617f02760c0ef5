"""A group of ranks that share a host, and its collectives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from steptime.backend.host import copies, reductions, segment
from steptime.backend.host.discovery import publish, receive
from steptime.backend.host.exchange import Exchange
from steptime.backend.host.exchange import bytes_needed as exchange_bytes
from steptime.backend.host.kernel import code, in_use
from steptime.backend.host.mail import Mail
from steptime.backend.host.mail import bytes_needed as mail_bytes
from steptime.backend.host.members import NOTE_BYTES, Members
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from steptime.backend.host.call import Call
    from steptime.backend.host.discovery import HostMap
    from steptime.backend.reduction import Reduction
    from steptime.world.compat import Store

_L2_CACHE = 191  # its number in sysconf(3) of glibc, which Python has no name for
_PAGE = 4096


class HostGroup:
    """One rank's side of a group whose ranks all share this host.

    Tensors are 1-D, contiguous and on the CPU, of any dtype and size. All methods block. Ranks,
    ``root``, ``to`` and ``source`` count within this group. ``call`` describes what is called, and
    all ranks must call the same: see Call.

    Collectives must come from one thread at a time; ``send`` and ``recv`` from any, meanwhile. They
    raise LostContactError when a rank dies, leaves, or does not come within ``timeout_s``;
    SteptimeError when the ranks disagree about what they call. After an error of a collective the
    group is broken: every later call raises the same at once, in every rank.
    """

    def __init__(
        self,
        store: Store,
        hosts: HostMap,
        timeout_s: float,
        names: Sequence[int] | None = None,
    ) -> None:
        """Join the group, as all ``hosts.members`` must.

        ``store`` is that in which ``hosts`` was found; ``names`` are the numbers by which errors
        call the members, by default their ranks among all.
        """
        members = hosts.members
        self.rank = members.index(hosts.rank)
        self.ranks = len(members)
        memory, slot_bytes, in_kernel = _common_memory(store, hosts, timeout_s)
        view = memoryview(memory).cast("B")
        notes = _paged(self.ranks * NOTE_BYTES)
        mail = notes + _paged(exchange_bytes(self.ranks, slot_bytes))
        processes = [peer.process for peer in hosts.peers]
        self.members = Members(view[:notes], self.rank, processes, names or members)
        self._exchange = Exchange(
            view[notes:mail],
            hosts.peers,
            self.members,
            slot_bytes,
            timeout_s,
            in_kernel=in_kernel,
        )
        self.mail = Mail(view[mail:], hosts.peers, self.members, timeout_s, in_kernel=in_kernel)
        """The messages between its members; the methods of this group call it."""
        self.kernel = self._exchange.kernel
        """The kernel in C, if all members have it. What it has not, Python does on its barrier."""

    def barrier(self, call: Call) -> None:
        """Wait until all ranks have come."""
        self._run(call, Exchange.step)

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Reduce the tensors of all ranks into every rank's."""
        number = None if self.kernel is None else code(op, tensor.dtype)
        if self.kernel is None or number is None:
            self._run(call, reductions.all_reduce, tensor, op)
        else:
            self._carry_out(self.kernel.reduce, call, tensor, number)

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Reduce the tensors of all ranks into that of ``root``."""
        number = None if self.kernel is None else code(op, tensor.dtype)
        if self.kernel is None or number is None:
            self._run(call, reductions.reduce, tensor, root, op)
        else:
            self._carry_out(self.kernel.reduce, call, tensor, number, root)

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Reduce ``inputs[rank]`` of all ranks into ``output``; all have equal sizes."""
        number = None if self.kernel is None else code(op, output.dtype)
        if self.kernel is None or number is None:
            self._run(call, reductions.reduce_scatter, output, inputs, op)
        else:
            self._carry_out(self.kernel.reduce_scatter, call, output, inputs, number)

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Copy the tensor of ``root`` into every rank's."""
        if self.kernel is None:
            self._run(call, copies.broadcast, tensor, root)
        else:
            self._carry_out(self.kernel.broadcast, call, tensor, root)

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Copy every rank's ``tensor`` into the output for it; all have equal sizes."""
        if self.kernel is None:
            self._run(call, copies.gather, outputs, tensor)
        else:
            self._carry_out(self.kernel.gather, call, outputs, tensor)

    def gather(
        self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
    ) -> None:
        """Copy every rank's ``tensor`` into ``outputs`` of ``root``; other ranks give None."""
        taken = outputs if self.rank == root else None
        if self.kernel is None:
            self._run(call, copies.gather, taken, tensor)
        else:
            self._carry_out(self.kernel.gather, call, taken, tensor)

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """Copy ``inputs[i]`` of ``root`` into ``output`` of rank i; other ranks give None."""
        given = inputs if self.rank == root else None
        if self.kernel is None:
            self._run(call, copies.scatter, output, given, root)
        else:
            self._carry_out(self.kernel.scatter, call, output, given, root)

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Copy rank i's ``inputs[j]`` into rank j's ``outputs[i]``."""
        if self.kernel is None:
            self._run(call, copies.all_to_all, outputs, inputs)
        else:
            self._carry_out(self.kernel.all_to_all, call, outputs, inputs)

    def agree(self, call: Call, sent: Sequence[int] = (), expected: Sequence[int] = ()) -> bool:
        """Wait until all ranks have come with the same call.

        ``sent`` and ``expected``, if given, are the elements to and from each rank. Returns whether
        all of them, on all ranks, are the same.
        """
        return bool(self._run(call, copies.agree, sent, expected))

    def send(self, call: Call, tensor: Tensor, to: int, tag: int) -> None:
        """Send a tensor to another rank.

        Returns once ``tensor`` may be changed: at once while the message fits into the mailbox
        (``mail.EAGER_BYTES``), else when the other rank receives.
        """
        self.mail.send(call, tensor, to, tag)

    def try_send(self, call: Call, tensor: Tensor, to: int, tag: int) -> bool:
        """Send a tensor if the other rank's mailbox has room for it; returns whether it had."""
        return self.mail.try_send(call, tensor, to, tag)

    def recv(self, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive a tensor with this tag from ``source``, or from any rank; returns the sender.

        Raises SteptimeError when its size or dtype is not that of ``tensor``; the group goes on.
        """
        return self.mail.recv(call, tensor, source, tag)

    def fail(self, error: SteptimeError) -> SteptimeError:
        """Break the group for a reason from outside; the other ranks' calls raise the same.

        Returns the error to raise: the first that broke the group.
        """
        first = self.members.fail(error)
        self._exchange.barrier.wake()
        return first

    def close(self) -> None:
        """Leave the group. Waits for nobody; tensors stay valid."""
        self.members.leave()
        self._exchange.barrier.wake()

    def _carry_out(self, collective: Callable[..., None], *arguments: object) -> None:
        """Call a collective of the kernel; breaks the group where it fails."""
        self.members.check()
        try:
            collective(*arguments)
        except BaseException as error:
            self.break_off(error)
            raise

    def _run(self, call: Call, collective: Callable[..., object], *arguments: object) -> object:
        self.members.check()
        exchange = self._exchange
        exchange.begin(call)
        try:
            return collective(exchange, *arguments)
        except BaseException as error:
            self.break_off(error)
            raise

    def break_off(self, error: BaseException) -> None:
        """Tell the others that this rank has left a collective half done."""
        barrier = self._exchange.barrier
        if not isinstance(error, SteptimeError):
            doing = f"failed in {barrier.doing()}: {type(error).__name__}: {error}"
            error = LostContactError(f"{self.members.name(self.rank)} {doing}")
        self.members.fail(error)
        barrier.wake()


def _common_memory(
    store: Store, hosts: HostMap, timeout_s: float
) -> tuple[ctypes.Array[ctypes.c_ubyte], int, bool]:
    """A segment that all members map and none holds open, the bytes of a slot, and whether in C.

    The kernel in C serves a group if all its members have it: only then are all its steps the same.
    Raises SteptimeError, on all members, where a limit of one of them forbids the segment.
    """
    first, *others = hosts.members
    if hosts.rank == first:
        slot_bytes = _slot_bytes()
        memory, in_kernel = _offer_memory(store, first, others, slot_bytes, timeout_s)
        return memory, slot_bytes, in_kernel
    card = receive(store, "segment", first, timeout_s)
    if card["trouble"]:
        raise SteptimeError(card["trouble"])
    try:
        memory_here = segment.map_of(hosts.peers[0].process.pid, card["fd"], card["size"])
        if memory_here is None:
            raise LostContactError(f"rank {first} died while the group was made")
    except SteptimeError as error:
        publish(store, "mapped", hosts.rank, {"trouble": str(error), "kernel": False})
        raise
    publish(store, "mapped", hosts.rank, {"trouble": "", "kernel": in_use()})
    made = receive(store, "made", first, timeout_s)
    if made["trouble"]:
        raise SteptimeError(made["trouble"])
    return memory_here, card["slot"], made["kernel"]


def _offer_memory(
    store: Store, first: int, others: Sequence[int], slot_bytes: int, timeout_s: float
) -> tuple[ctypes.Array[ctypes.c_ubyte], bool]:
    """The part of the first member: make the segment, and tell the others what came of it."""
    ranks = 1 + len(others)
    size = _paged(ranks * NOTE_BYTES) + _paged(exchange_bytes(ranks, slot_bytes))
    size += mail_bytes(ranks)
    card = {"fd": -1, "size": size, "slot": slot_bytes, "trouble": ""}
    try:
        fd, memory = segment.make(size)
    except SteptimeError as error:
        publish(store, "segment", first, card | {"trouble": str(error)})
        raise
    try:
        publish(store, "segment", first, card | {"fd": fd})
        answers = [receive(store, "mapped", other, timeout_s) for other in others]
    finally:
        os.close(fd)
    trouble = next((answer["trouble"] for answer in answers if answer["trouble"]), "")
    in_kernel = in_use() and all(answer["kernel"] for answer in answers)
    publish(store, "made", first, {"trouble": trouble, "kernel": in_kernel})
    if trouble:
        raise SteptimeError(trouble)
    return memory, in_kernel


def _slot_bytes() -> int:
    """A quarter of a processor's second-level cache.

    So a block of a tensor and what this rank reads and writes of the slots stay in that cache.
    """
    try:
        cache = os.sysconf(_L2_CACHE)
    except (OSError, ValueError):
        cache = 0
    return min(max(cache // 4, 64 << 10), 1 << 20) // _PAGE * _PAGE


def _paged(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
