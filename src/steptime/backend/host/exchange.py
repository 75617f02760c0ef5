"""Exchange: the shared memory by which collectives pass data: slots and windows.

*Slots* are staging buffers. A rank copies a block of its tensor into its own slot, all *step* to
the next point of the barrier, and each reads the slots that it needs. There are two sets of slots:
while some ranks still read those of one block, others fill those of the next; and whoever reaches
the next point has done with reading. So a block costs one point, and a message that fits into one
block costs one point in all.

*Windows* need no staging: large tensors in arenas are read and written in place by the other ranks,
which step once more at the end, when all have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from steptime.backend.host.arena import arena
from steptime.backend.host.barrier import Barrier, words_needed
from steptime.backend.host.call import Kind
from steptime.backend.host.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from steptime.backend.host.call import Call
    from steptime.backend.host.discovery import Peer
    from steptime.backend.host.members import Members

LINE_BYTES = 128
"""Distance between data of different ranks: processors fetch cache lines in pairs."""

WINDOW_BYTES = 128 << 10
"""From this size on, the barrier that windows need costs less than the copies they save."""

_CLOSED = 2**64 - 1
_KEPT = 256  # views of slots and of windows: making one takes longer than a small message


def bytes_needed(ranks: int, slot_bytes: int) -> int:
    """Bytes of shared memory that an Exchange of that many ranks needs."""
    return _aligned(8 * words_needed(ranks)) + 2 * ranks * (_aligned(8 * ranks) + slot_bytes)


class Exchange:
    """The barrier, slots and windows of a group, in ``memory`` that is zero at first."""

    def __init__(
        self,
        memory: memoryview,
        peers: Sequence[Peer],
        members: Members,
        slot_bytes: int,
        timeout_s: float,
        *,
        in_kernel: bool,
    ) -> None:
        ranks = self.ranks = len(peers)
        self.rank = members.rank
        board = _aligned(8 * words_needed(ranks))
        slots = board + 2 * ranks * _aligned(8 * ranks)
        words = memory[:board].cast("Q")
        end = slots + 2 * ranks * slot_bytes
        self.kernel: Kernel | None = None
        if in_kernel:
            self.kernel = Kernel(words, memory[slots:end], slot_bytes, peers, members, timeout_s)
        self.barrier = self.kernel or Barrier(words, ranks, members, timeout_s)
        # For each call, odd or even, and each rank: where its tensors lie in its arena.
        rows = [
            memory[start : start + 8 * ranks].cast("Q")
            for start in range(board, slots, _aligned(8 * ranks))
        ]
        self._boards = rows[:ranks], rows[ranks:]
        self._slot_bytes = slot_bytes
        self._slots = torch.frombuffer(memory[slots:end], dtype=torch.uint8).split(slot_bytes)
        self._slot_views: dict[
            tuple[torch.dtype, int, int], tuple[list[list[Tensor]], list[list[Tensor]]]
        ] = {}
        self._peers = peers
        self._window_views: dict[tuple[int, int, torch.dtype, int], Tensor] = {}
        self._arena = arena()
        self._begun: Call | None = None

    def begin(self, call: Call) -> None:
        """Start a call; the ranks compare what they call at the next point."""
        self._begun = call

    def step(self) -> None:
        """Pass the next point of the barrier with all ranks."""
        call, self._begun = self._begun, None
        if call is None:
            self.barrier.step()
        else:
            self.barrier.arrive(call)

    def blocks(self, tensor: Tensor, pieces: int = 1) -> Sequence[Tensor]:
        """The tensor cut into blocks of which ``pieces`` fit into a slot; at least one block."""
        return split(tensor, self.fitting(tensor.dtype, pieces))

    def fitting(self, dtype: torch.dtype, pieces: int = 1) -> int:
        """How many elements fit into a slot cut into ``pieces`` parts."""
        return self._stride(pieces) // dtype.itemsize

    def slots(self, dtype: torch.dtype, elements: int, pieces: int = 1) -> list[list[Tensor]]:
        """The slots of the next block, one a rank; this rank fills its own before the next point.

        Each has ``pieces`` tensors of ``elements`` elements. They may be used until the second call
        after this one; all ranks must make the same call.
        """
        key = dtype, elements, pieces
        views = self._slot_views.get(key)
        if views is None:
            if len(self._slot_views) >= _KEPT // pieces:
                self._slot_views.clear()
            views = self._slot_views[key] = self._sliced(*key)
        state = self.barrier.state
        state.turn ^= 1
        return views[state.turn]

    def windows(
        self,
        tensors: Sequence[Tensor],
        owners: Sequence[int],
        sizes: Sequence[int],
        wanted: int | None = None,
        written: Iterable[Tensor] = (),
    ) -> list[Tensor] | None:
        """Let other ranks access this rank's ``tensors``, and return views of those of ``owners``.

        An owner has one tensor or, where its tensor at index ``wanted`` is wanted, one for each
        rank; others have none. The views have ``sizes`` elements and are valid until the next
        point.

        Returns None, on all ranks, when the call is too small to gain by windows or a tensor of an
        owner cannot be accessed in place: it lies outside the arena, or overlaps what its rank has
        ``written`` meanwhile (the one for that rank itself may be written in place).
        """
        call = self._begun
        if call is None or call.dtype is None:
            return None
        if call.bytes < WINDOW_BYTES and call.kind != Kind.ALL_TO_ALL:
            return None
        board = self._boards[self.barrier.state.count & 1]
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
        offsets = [self._arena.offset(tensor.data_ptr()) for tensor in tensors]
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
            memory = self._peers[owner].arena.view(offset, elements * dtype.itemsize)
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
    """The tensor in parts of ``elements`` elements; quicker than torch where one part is enough."""
    return (tensor,) if tensor.numel() <= elements else tensor.split(elements)


def _overlap(a: Tensor, b: Tensor) -> bool:
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + b.nbytes and start_b < start_a + a.nbytes


def _aligned(size: int) -> int:
    return -(-size // LINE_BYTES) * LINE_BYTES
