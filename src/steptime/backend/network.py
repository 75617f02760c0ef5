"""NetworkGroup: collectives among ranks on different hosts, over sockets.

Only bytes travel, so any dtype can; elements are combined here, in the order of the ranks. The
ranks send each other their calls and check them: what is small travels with the call, and what is
larger only when all have agreed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from steptime.backend.engine import even_counts
from steptime.backend.flatten import disjoint, parts
from steptime.backend.folding import fold
from steptime.backend.host import Call
from steptime.backend.post import Post, decoded, memory
from steptime.backend.reasons import Reasons
from steptime.backend.reduction import Reduction
from steptime.backend.sockets import Receipt, Sending, meet
from steptime.backend.transport import nothing
from steptime.collectives.powers import powers_below
from steptime.errors import SteptimeError
from steptime.world import compat

_SMALL_BYTES = 16 << 10
"""Up to this size latency dominates: a message travels with the call, and one round of whole
vectors beats two of parts."""

# The tags of users are not negative.
_AGREEMENT_TAG = -1
_COLLECTIVE_TAG = -2

_FEW = 10
"""Up to so many ranks one round of messages to all is sooner done than several to one."""

_PIECE_BYTES = 512 << 10
_AHEAD = 2
"""Pieces of each rank that may arrive before the first of them is reduced."""


class NetworkGroup:
    """An Engine whose ranks may be on any hosts that reach each other by TCP."""

    def __init__(
        self,
        store: compat.Store,
        rank: int,
        ranks: int,
        timeout_s: float,
        names: Sequence[int],
        reasons: Reasons,
    ) -> None:
        """Meet in ``store``. ``names`` are what errors call the ranks.

        Raises SteptimeError when the ranks cannot connect to each other.
        """
        self.rank = rank
        self.ranks = ranks
        self._names = names
        self._peers = [(rank + i) % ranks for i in range(1, ranks)]
        self._number = 0
        mesh = meet(store, rank, ranks, names, timeout_s)
        self._post = post = Post(mesh, rank, names, timeout_s, reasons)
        self.send, self.try_send, self.recv = post.send, post.try_send, post.recv

    def barrier(self, call: Call) -> None:
        """Return when all ranks are here."""
        self._agree(call)

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Each rank reduces its part and all gather the parts; one round when small."""
        if tensor.nbytes <= _SMALL_BYTES:
            whole = [torch.empty_like(tensor) for _ in range(self.ranks)]
            whole[self.rank] = tensor
            self._share(call, whole, begins=True)
            fold(op, whole, tensor)
            return
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        waits = []
        for piece in self._reduced_pieces(call, blocks[self.rank], blocks, op):
            waits += [self.begin_send(call, piece, p) for p in self._peers]
        arriving = [(p, piece) for p in self._peers for piece in _pieces(blocks[p])]
        waits += [self.begin_receive(call, piece, p) for p, piece in arriving]
        for wait in waits:
            wait()

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Sent to all when small, scattered and gathered when larger, passed on when large."""
        if tensor.nbytes <= _SMALL_BYTES:
            outgoing = dict.fromkeys(self._peers, tensor) if self.rank == root else {}
            self._begin(call, {} if self.rank == root else {root: tensor}, outgoing)
            return
        pieces = _pieces(tensor) if self.ranks > 2 else (tensor,)
        if len(pieces) >= self.ranks or self.ranks == 2:
            self._agree(call)
            self._pass_on(call, pieces, root)
            return
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        self._deal(call, blocks[self.rank], blocks, root)
        self._share(call, blocks)

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Each rank reduces its part of the vector and the root gathers the parts."""
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        part = blocks[self.rank] if self.rank == root else torch.empty_like(blocks[self.rank])
        self._reduce_part(call, part, blocks, op)
        if self.rank == root:
            self._exchange(call, {p: blocks[p] for p in self._peers}, {})
        else:
            self._exchange(call, {}, {root: part})

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Every rank sends its vector to every other."""
        outputs[self.rank].copy_(tensor)
        self._share(call, outputs, begins=True)

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Every rank sends to each other what that one must reduce."""
        self._reduce_part(call, output, inputs, op)

    def gather(
        self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
    ) -> None:
        """Every rank sends its vector to the root."""
        if outputs is None:
            self._begin(call, {}, {root: tensor})
        else:
            outputs[root].copy_(tensor)
            self._begin(call, {p: outputs[p] for p in self._peers}, {})

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """The root sends each rank its part."""
        self._deal(call, output, inputs or (), root)
        if inputs is not None:
            output.copy_(inputs[root])

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Every rank sends each other its part."""
        sizes = [t.numel() for t in chain(inputs, outputs)]
        own = inputs[self.rank]
        if not all(disjoint(own, outputs[p]) for p in self._peers):
            own = own.clone()
        self._begin(
            call, {p: outputs[p] for p in self._peers}, {p: inputs[p] for p in self._peers}, sizes
        )
        outputs[self.rank].copy_(own)

    def close(self) -> None:
        """Close the connections to the other ranks."""
        self._post.close()

    def fail(self, error: SteptimeError) -> SteptimeError:
        """Break the group; returns the error that all of its ranks raise from here on."""
        return self._post.fail(error)

    def agree(self, call: Call, sent: Sequence[int] = (), expected: Sequence[int] = ()) -> bool:
        """Return when all ranks have come here with the same call, or raise on each of them.

        Where sizes differ by pair, ``sent`` and ``expected`` hold the elements to and from each
        rank. Returns whether all of them, on all ranks, are the same.
        """
        if sent:
            return self._begin(call, {}, {}, [*sent, *expected])
        self._agree(call)
        return True

    def begin_send(self, call: Call, tensor: Tensor, to: int) -> Callable[[], None]:
        """Begin to send within a collective; call the result to wait until it has left."""
        sending = self._post.put(call, memory(tensor), to, _COLLECTIVE_TAG)
        if sending.done:
            return nothing
        return lambda: self._post.wait(sending, to, call, self._number)

    def begin_receive(self, call: Call, tensor: Tensor, source: int) -> Callable[[], None]:
        """Begin to receive within a collective; call the result to wait for ``tensor``."""
        receipt = self._post.ask(source, _COLLECTIVE_TAG, memory(tensor))
        return lambda: self._post.wait(receipt, source, call, self._number)

    def _agree(self, call: Call) -> None:
        """Return when all ranks have come here with the same call.

        Few ranks tell each other all at once; many in rounds, to the ranks at distances 1, 2, 4…:
        after the last each has heard, through others, of all (Hensgen, Finkel and Manber, "Two
        algorithms for barrier synchronization", 1988).
        """
        if self.ranks <= _FEW:
            self._begin(call, {}, {})
            return
        self._number += 1
        for distance in powers_below(self.ranks):
            source, to = (self.rank - distance) % self.ranks, (self.rank + distance) % self.ranks
            receipt = self._post.ask(source, _AGREEMENT_TAG)
            sending = self._post.put(call, memoryview(b""), to, _AGREEMENT_TAG)
            self._post.wait(receipt, source, call, self._number)
            self._post.wait(sending, to, call, self._number)
            if receipt.call != call.encoded:
                calls = {self.rank: call, source: decoded(receipt.call)}
                raise self.fail(SteptimeError(self._disagreement(calls)))

    def _begin(
        self,
        call: Call,
        arrivals: Mapping[int, Tensor],
        departures: Mapping[int, Tensor],
        sizes: Sequence[int] = (),
    ) -> bool:
        """Agree on a call and exchange its first messages; small ones travel with the agreement.

        ``sizes``: the elements to each rank and from each, where they differ by pair. Returns
        whether all of them, on all ranks, are the same.
        """
        self._number += 1
        preface = np.array(sizes, np.int64).tobytes()
        receipts = [self._post.ask(peer, _AGREEMENT_TAG) for peer in self._peers]
        sendings: list[Sending] = []
        for peer in self._peers:
            message, tensor = preface, departures.get(peer)
            if tensor is not None and 0 < tensor.nbytes <= _SMALL_BYTES:
                message = preface + bytes(memory(tensor))
            sendings.append(self._post.put(call, memoryview(message), peer, _AGREEMENT_TAG))
        for peer, receipt, sending in zip(self._peers, receipts, sendings, strict=True):
            self._post.wait(receipt, peer, call, self._number)
            self._post.wait(sending, peer, call, self._number)
        same = self._check(call, sizes, receipts)
        for peer, receipt in zip(self._peers, receipts, strict=True):
            if len(receipt.payload) > len(preface):
                memory(arrivals[peer])[:] = receipt.payload[len(preface) :]
        self._exchange(call, _large(arrivals), _large(departures))
        return same

    def _check(self, call: Call, sizes: Sequence[int], receipts: Sequence[Receipt]) -> bool:
        """Raise where calls differ, or sizes of pairs; whether all sizes are the same."""
        if any(receipt.call != call.encoded for receipt in receipts):
            others = {receipt.source: decoded(receipt.call) for receipt in receipts}
            calls = {rank: others.get(rank, call) for rank in range(self.ranks)}
            raise self.fail(SteptimeError(self._disagreement(calls)))
        if not sizes:
            return True
        rows = np.empty((self.ranks, len(sizes)), np.int64)  # to each rank, then from each
        rows[self.rank] = sizes
        for receipt in receipts:
            rows[receipt.source] = np.frombuffer(receipt.payload, np.int64, len(sizes))
        wrong = np.argwhere(rows[:, : self.ranks] != rows[:, self.ranks :].T)
        if wrong.size:
            source, to = wrong[0]
            raise self.fail(
                SteptimeError(
                    f"in call {self._number}, {call}, rank {self._names[source]} sends "
                    f"{rows[source, to]} elements to rank {self._names[to]}, which expects "
                    f"{rows[to, self.ranks + source]}"
                )
            )
        return bool((rows == rows[0, 0]).all())

    def _disagreement(self, calls: Mapping[int, Call]) -> str:
        """Who called what, of ranks whose calls are known."""
        callers: dict[str, list[str]] = {}
        for rank, call in sorted(calls.items()):
            callers.setdefault(str(call), []).append(str(self._names[rank]))
        return f"the ranks disagree in call number {self._number}: " + "; ".join(
            f"rank{'s' * (len(names) > 1)} {', '.join(names)} called {call}"
            for call, names in callers.items()
        )

    def _share(self, call: Call, tensors: Sequence[Tensor], *, begins: bool = False) -> None:
        """All-gather in place: fill ``tensors[i]`` with rank i's own ``tensors[i]``."""
        own = tensors[self.rank]
        move = self._begin if begins else self._exchange
        move(call, {p: tensors[p] for p in self._peers}, dict.fromkeys(self._peers, own))

    def _reduce_part(
        self, call: Call, part: Tensor, tensors: Sequence[Tensor], op: Reduction
    ) -> None:
        """Agree, and fill ``part`` with the reduction of all ranks' ``tensors[rank]``.

        The first of ``tensors`` is one of the longest.
        """
        if tensors[0].nbytes <= _SMALL_BYTES:
            own = tensors[self.rank]
            contributions = [torch.empty_like(own) for _ in range(self.ranks)]
            contributions[self.rank] = own.clone()  # part may lie anywhere in it
            arrivals = {p: contributions[p] for p in self._peers}
            self._begin(call, arrivals, {p: tensors[p] for p in self._peers})
            fold(op, contributions, part)
            return
        result = part if _may_be_filled(part, tensors, self.rank) else torch.empty_like(part)
        for _ in self._reduced_pieces(call, result, tensors, op):
            pass
        if result is not part:
            part.copy_(result)

    def _reduced_pieces(
        self, call: Call, part: Tensor, tensors: Sequence[Tensor], op: Reduction
    ) -> Iterator[Tensor]:
        """As ``_reduce_part``, piece by piece; yields the pieces of ``part`` as they are done.

        While one is reduced the next arrive, in memory that stays in the caches.
        """
        self._agree(call)
        leaving = [
            self.begin_send(call, piece, p) for p in self._peers for piece in _pieces(tensors[p])
        ]
        pieces, owned = _pieces(part), _pieces(tensors[self.rank])
        if not pieces:
            return
        room = [[torch.empty_like(pieces[0]) for _ in range(self.ranks)] for _ in range(_AHEAD)]

        def asked(index: int) -> tuple[list[Tensor], list[Callable[[], None]]]:
            landing = [one[: len(pieces[index])] for one in room[index % _AHEAD]]
            landing[self.rank] = owned[index]
            return landing, [self.begin_receive(call, landing[p], p) for p in self._peers]

        coming = deque(asked(index) for index in range(min(_AHEAD, len(pieces))))
        for index, piece in enumerate(pieces):
            contributions, waits = coming.popleft()
            for wait in waits:
                wait()
            fold(op, contributions, piece)
            if index + _AHEAD < len(pieces):
                coming.append(asked(index + _AHEAD))
            yield piece
        for wait in leaving:
            wait()

    def _pass_on(self, call: Call, pieces: Sequence[Tensor], root: int) -> None:
        """Each rank sends the next what it receives from the one before it, piece by piece.

        So every link carries the vector once, all at the same time but for a piece.
        """
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        waits: list[Callable[[], None]] = []
        arriving: list[Callable[[], None]] = []
        if self.rank != root:
            arriving = [self.begin_receive(call, piece, before) for piece in pieces]
        for index, piece in enumerate(pieces):
            if arriving:
                arriving[index]()
            if after != root:
                waits.append(self.begin_send(call, piece, after))
        for wait in waits:
            wait()

    def _deal(self, call: Call, output: Tensor, inputs: Sequence[Tensor], root: int) -> None:
        """Agree, and scatter ``inputs`` of ``root`` to the ``output`` of each other rank."""
        if self.rank == root:
            self._begin(call, {}, {p: inputs[p] for p in self._peers})
        else:
            self._begin(call, {root: output}, {})

    def _exchange(
        self, call: Call, arrivals: Mapping[int, Tensor], departures: Mapping[int, Tensor]
    ) -> None:
        arriving = [self.begin_receive(call, t, p) for p, t in arrivals.items() if t.nbytes]
        leaving = [self.begin_send(call, t, p) for p, t in departures.items() if t.nbytes]
        for wait in arriving + leaving:
            wait()


def _pieces(vector: Tensor) -> Sequence[Tensor]:
    """Consecutive views of a vector, each small enough for the caches."""
    return vector.split(max(1, _PIECE_BYTES // vector.itemsize)) if vector.numel() else ()


def _may_be_filled(part: Tensor, tensors: Sequence[Tensor], rank: int) -> bool:
    """Whether a part may be written while others of ``tensors`` are still being sent."""
    if part.data_ptr() == tensors[rank].data_ptr():
        return True
    return all(disjoint(part, tensor) for tensor in tensors)


def _large(tensors: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
    """Those that do not travel with the agreement."""
    return {peer: tensor for peer, tensor in tensors.items() if tensor.nbytes > _SMALL_BYTES}
