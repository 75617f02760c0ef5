"""What the collectives of a group are made of: points reached together, slots, and windows.

A rank puts a block of its tensor into its own slot, all *step* to the next point, and each reads
the slots that it needs. Slots are double: while some ranks still read those of one block, others
fill those of the next; and whoever reaches the next point has done with reading. So a block costs
one point, and a message that fits into one block costs one point in all.

Large tensors that lie in their processes' arenas need no slots: their ranks open *windows* on them
for each other, and step once more at the end, when all have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from steptime.backend.host.arena import arena
from steptime.backend.host.barrier import Barrier, words_needed
from steptime.backend.host.call import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from steptime.backend.host.call import Call
    from steptime.backend.host.discovery import Peer
    from steptime.backend.host.members import Members

LINE_BYTES = 128
"""What different ranks write is that far apart: processors fetch lines in pairs."""

WINDOW_BYTES = 128 << 10
"""From this size on, the point that it takes to open windows costs less than the copies saved."""

_CLOSED = 2**64 - 1
_KEPT = 256  # views of slots and of windows: making one takes longer than a small message


def bytes_needed(ranks: int, slot_bytes: int) -> int:
    """Bytes of shared memory that an Exchange of that many ranks needs."""
    return _aligned(8 * words_needed(ranks)) + 2 * ranks * (_aligned(8 * ranks) + slot_bytes)


class Exchange:
    """The points, slots and windows of a group, in ``memory`` that is zero at first."""

    def __init__(
        self,
        memory: memoryview,
        peers: Sequence[Peer],
        members: Members,
        slot_bytes: int,
        timeout_s: float,
    ) -> None:
        ranks = self.ranks = len(peers)
        self.rank = members.rank
        board = _aligned(8 * words_needed(ranks))
        slots = board + 2 * ranks * _aligned(8 * ranks)
        self.lockstep = Barrier(memory[:board].cast("Q"), ranks, members, timeout_s)
        # For each call, odd or even, and each rank: where its tensors lie in its arena.
        rows = [
            memory[start : start + 8 * ranks].cast("Q")
            for start in range(board, slots, _aligned(8 * ranks))
        ]
        self._boards = rows[:ranks], rows[ranks:]
        self._slot_bytes = slot_bytes
        end = slots + 2 * ranks * slot_bytes
        self._slots = torch.frombuffer(memory[slots:end], dtype=torch.uint8).split(slot_bytes)
        self._slot_views: dict[
            tuple[torch.dtype, int, int], tuple[list[list[Tensor]], list[list[Tensor]]]
        ] = {}
        self._turn = 0
        self._peers = peers
        self._window_views: dict[tuple[int, int, torch.dtype, int], Tensor] = {}
        self._arena = arena()
        self._begun: Call | None = None

    def begin(self, call: Call) -> None:
        """Start a call; at the next point the ranks see whether they call the same."""
        self._begun = call

    def step(self) -> None:
        """Reach the next point together."""
        call, self._begun = self._begun, None
        if call is None:
            self.lockstep.step()
        else:
            self.lockstep.arrive(call)

    def blocks(self, tensor: Tensor, pieces: int = 1) -> Sequence[Tensor]:
        """The tensor in blocks, of which a slot holds as many as ``pieces``; at least one."""
        return split(tensor, self.fitting(tensor.dtype, pieces))

    def fitting(self, dtype: torch.dtype, pieces: int = 1) -> int:
        """How many elements each of ``pieces`` parts of a slot holds."""
        return self._stride(pieces) // dtype.itemsize

    def slots(self, dtype: torch.dtype, elements: int, pieces: int = 1) -> list[list[Tensor]]:
        """The slots of the next block, of every rank: to be filled before the next point.

        ``pieces`` tensors of ``elements`` elements for each rank. They may be used until the
        second call after this one; all ranks call it alike.
        """
        key = dtype, elements, pieces
        views = self._slot_views.get(key)
        if views is None:
            if len(self._slot_views) >= _KEPT // pieces:
                self._slot_views.clear()
            views = self._slot_views[key] = self._sliced(*key)
        self._turn ^= 1
        return views[self._turn]

    def windows(
        self,
        tensors: Sequence[Tensor],
        owners: Sequence[int],
        sizes: Sequence[int],
        wanted: int | None = None,
        written: Iterable[Tensor] = (),
    ) -> list[Tensor] | None:
        """Open windows on this rank's ``tensors``, and look through those of the ``owners``.

        An owner has one tensor or, where its tensor at index ``wanted`` is wanted, one for each
        rank; others have none. Returns the tensors of the owners, with as many elements as
        ``sizes`` says; they are there until the next point. None, on all ranks alike, when the
        call is too small to be worth it or not all tensors of the owners can be read where they
        are: they lie outside the arena, or overlap what their rank has ``written`` meanwhile
        (the one for that rank itself may be written to where it is).
        """
        call = self._begun
        if call is None or call.dtype is None:
            return None
        if call.bytes < WINDOW_BYTES and call.kind != Kind.ALL_TO_ALL:
            return None
        board = self._boards[self.lockstep.count & 1]
        own = board[self.rank]
        for index, offset in enumerate(self._offsets(tensors, written)):
            own[index] = offset
        self.step()
        each, index = (1, 0) if wanted is None else (self.ranks, wanted)
        rows = [board[owner][:each].tolist() for owner in owners]
        if any(_CLOSED in row for row in rows):
            return None
        return [
            tensors[index]
            if owner == self.rank
            else self._window(owner, row[index], call.dtype, size)
            for owner, row, size in zip(owners, rows, sizes, strict=True)
        ]

    def _offsets(self, tensors: Sequence[Tensor], written: Iterable[Tensor]) -> list[int]:
        offsets = [self._arena.offset(tensor) for tensor in tensors]
        for output in written:
            for rank, tensor in enumerate(tensors):
                own = rank == self.rank and output.data_ptr() == tensor.data_ptr()
                if _overlap(output, tensor) and not own:
                    return [_CLOSED] * len(tensors)
        return [_CLOSED if offset is None else offset for offset in offsets]

    def _window(self, owner: int, offset: int, dtype: torch.dtype, elements: int) -> Tensor:
        key = owner, offset, dtype, elements
        view = self._window_views.get(key)
        if view is None:
            if len(self._window_views) >= _KEPT:
                self._window_views.clear()
            end = offset + elements * dtype.itemsize
            memory = self._peers[owner].memory[offset:end]
            view = self._window_views[key] = memory.view(dtype)
        return view

    def _sliced(
        self, dtype: torch.dtype, elements: int, pieces: int
    ) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        stride, size = self._stride(pieces), elements * dtype.itemsize
        starts = [piece * stride for piece in range(pieces)]
        slots = [
            [slot[start : start + size].view(dtype) for start in starts] for slot in self._slots
        ]
        return slots[: self.ranks], slots[self.ranks :]

    def _stride(self, pieces: int) -> int:
        return self._slot_bytes // pieces // LINE_BYTES * LINE_BYTES


def split(tensor: Tensor, elements: int) -> Sequence[Tensor]:
    """The tensor in parts of so many elements; at least one. Does nothing, faster than torch."""
    return (tensor,) if tensor.numel() <= elements else tensor.split(elements)


def _overlap(a: Tensor, b: Tensor) -> bool:
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + b.nbytes and start_b < start_a + a.nbytes


def _aligned(size: int) -> int:
    return -(-size // LINE_BYTES) * LINE_BYTES
