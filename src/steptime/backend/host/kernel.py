"""Kernel: the barrier of a group, and collectives, in C where that was built.

The kernel works on the same shared memory as the Python beside it, step for step, so a group may
call either from one call to the next: what C does not serve is done in Python, on C's barrier.
"""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import torch

from steptime.backend.flatten import apart
from steptime.backend.host.arena import arena
from steptime.backend.host.barrier import Barrier
from steptime.backend.host.call import Call, Kind
from steptime.backend.reduction import AVG, BAND, BOR, BXOR, MAX, MIN, PRODUCT, SUM, Reduction
from steptime.errors import SteptimeError, UsageError

try:
    from steptime.backend.host import _kernel
except ImportError:  # no C compiler where steptime was installed
    _kernel = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import threading
    from collections import deque
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch import Tensor

    from steptime.backend.host.discovery import Peer
    from steptime.backend.host.members import Members

VARIABLE = "STEPTIME_KERNEL"
"""The environment variable that chooses the kernel: c, python, or whichever there is."""

CLOSED = 2**64 - 1
EVERYONE = -1
"""In the place of a root."""

_PLACED = 1024  # elements; smaller tensors are reduced through slots, wherever they lie
_MOVED = 32 << 10  # bytes, WINDOW_BYTES of C: smaller tensors are moved through slots

# In the order of folds.h.
_TYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int8, torch.uint8, torch.int16, torch.uint16),
    *(torch.int32, torch.uint32, torch.int64, torch.uint64),
)
_OPERATIONS = (SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, AVG)


def chosen(environ: Mapping[str, str]) -> bool:
    """Whether groups of this process use the kernel in C; tells once where it was not built.

    Raises UsageError where the environment asks for one that is not there.
    """
    asked = environ.get(VARIABLE, "")
    if asked not in ("", "c", "python"):
        raise UsageError(f"{VARIABLE} is {asked}: set it to c or to python, or not at all")
    if asked == "c" and _kernel is None:
        raise UsageError(
            f"{VARIABLE} asks for the kernel in C, which was not built: install gcc and Python's "
            "headers, then steptime again, or unset it"
        )
    if not asked and _kernel is None:
        tell_once()
    return _kernel is not None and asked != "python"


@cache
def tell_once() -> None:
    """Tell users that they could have the kernel in C."""
    logging.getLogger(__name__).warning(
        "the backend steptime works in Python, more slowly: its kernel in C was not built; install "
        "gcc and Python's headers, then steptime again, or set %s=python",
        VARIABLE,
    )


def is_built() -> bool:
    """Whether the kernel in C was built."""
    return _kernel is not None


@lru_cache(maxsize=4096)
def code(op: Reduction, dtype: torch.dtype) -> int | None:
    """How the kernel numbers a reduction of a type; None for one that it has not."""
    if _kernel is None or op not in _OPERATIONS or dtype not in _TYPES:
        return None
    operation, of = _OPERATIONS.index(op), _TYPES.index(dtype)
    if op in (BAND, BOR, BXOR) and dtype.is_floating_point:
        return None
    return of * _kernel.OPERATIONS + operation


def channel_in_c(words: int, ring: int, looks: int, writer: int) -> _kernel.Channel:
    """A side of a channel in C, by its addresses; for a group that is in C."""
    return _kernel.Channel(words, ring, looks, writer)


def quick_in_c(
    kernel: Kernel,
    lane: _kernel.Lane,
    failed: Callable[[BaseException], None],
    reductions: Sequence[Reduction],
    names: Sequence[int],
) -> _kernel.Quick:
    """The collectives of a group past Python; ``reductions`` are torch's, in its order.

    ``failed`` is called with what a call fails with, before that is raised.
    """
    operations = tuple((_OPERATIONS.index(op), op.name) for op in reductions)
    members, segments = kernel.members, arena().segments
    return _kernel.Quick(
        *(kernel, kernel.group, lane, members, failed),
        *(segments, operations, _encoded_types(), tuple(names)),
    )


def route_in_c(
    channel: _kernel.Channel,
    lock: threading.Lock,
    kept: deque[Any],
    lane: _kernel.Lane,
    members: Members,
    name: int,
    tag: int,
) -> _kernel.Route:
    """The brief messages of a tag to the rank of that name, or from it, past Python."""
    types = _encoded_types()
    return _kernel.Route(channel, lock.locked, kept, lane, members, lane.crew, types, name, tag)


@cache
def _encoded_types() -> bytes:
    """The types of the kernel as a Call encodes them."""
    return bytes(Call(Kind.SEND, dtype).encoded[1] for dtype in _TYPES)


def move_in_c() -> Callable[..., tuple[bool, list[int]]] | None:
    """What moves bytes over connections in C; None where this process is to do without."""
    return _kernel.move if in_use() else None


class Kernel(Barrier):
    """A Barrier in C, and what C does between its points. Slots are those of the Exchange."""

    def __init__(
        self,
        words: memoryview,
        slots: memoryview,
        slot_bytes: int,
        peers: Sequence[Peer],
        members: Members,
        timeout_s: float,
    ) -> None:
        ranks = len(peers)
        super().__init__(words, ranks, members, timeout_s)
        self._memory = slots  # kept as long as C has its address
        address = ctypes.addressof(ctypes.c_ubyte.from_buffer(slots))
        self.state = self.group = _kernel.Group(
            self.rank, ranks, self.looks, self._address, address, slot_bytes
        )
        self._slot_bytes = slot_bytes
        self._peers = peers
        self._arena = arena()

    def arrive(self, call: Call) -> None:
        """As Barrier does."""
        if not self.group.arrive(self, call.encoded):
            raise self._mismatch()

    def step(self) -> None:
        """As Barrier does."""
        self.group.step(self)

    def wake(self) -> None:
        """As Barrier does."""
        self.group.wake()

    def reduce(self, call: Call, tensor: Tensor, op: int, root: int = EVERYONE) -> None:
        """Reduce the tensors of all ranks into that of ``root``, by the code of a reduction."""
        elements = call.elements
        place = tensor.data_ptr()
        where = self._where(place) if elements >= _PLACED else CLOSED
        group = self.group
        if not group.reduce(self, call.encoded, place, elements, op, root, where):
            raise self._mismatch()

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Copy the tensor of ``root`` to all ranks."""
        place, size = tensor.data_ptr(), call.bytes
        where = self._where(place) if size >= _MOVED else CLOSED
        if not self.group.broadcast(self, call.encoded, place, size, root, where):
            raise self._mismatch()

    def gather(self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor) -> None:
        """Copy every rank's ``tensor`` into ``outputs[i]`` of the ranks that give outputs."""
        own, size = tensor.data_ptr(), tensor.nbytes
        places = None if outputs is None else tuple(output.data_ptr() for output in outputs)
        others = () if places is None else (*places[: self.rank], *places[self.rank + 1 :])
        covered = any(own < other + size and other < own + size for other in others)
        where = CLOSED if covered else self._where(own)
        if not self.group.gather(self, call.encoded, places, own, size, where):
            raise self._mismatch()

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """Copy ``inputs[i]`` of ``root`` into ``output`` of rank i; other ranks give None."""
        target, size = output.data_ptr(), output.nbytes
        sources = places = None
        if inputs is not None:
            sources = tuple(tensor.data_ptr() for tensor in inputs)
            others = (*sources[:root], *sources[root + 1 :])
            covered = any(target < other + size and other < target + size for other in others)
            places = tuple(CLOSED if covered else self._where(source) for source in sources)
        group = self.group
        if not group.scatter(self, call.encoded, target, sources, places, size, root):
            raise self._mismatch()

    def reduce_scatter(self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: int) -> None:
        """Reduce ``inputs[self.rank]`` of all ranks into ``output``."""
        target, size = output.data_ptr(), output.nbytes
        places = tuple(tensor.data_ptr() for tensor in inputs)
        first, end = places[0], places[0] + size * len(places)
        apart = target != places[self.rank] and first < target + size and target < end
        where = CLOSED if apart else self._where_all(inputs, places)
        group = self.group
        if not group.reduce_scatter(self, call.encoded, target, places, output.numel(), op, where):
            raise self._mismatch()

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Copy rank i's ``inputs[j]`` into rank j's ``outputs[i]``; sizes may differ.

        Raises SteptimeError, on all ranks, when a rank expects another size than it is sent.
        """
        sources = tuple(tensor.data_ptr() for tensor in inputs)
        targets = tuple(tensor.data_ptr() for tensor in outputs)
        sent = tuple(tensor.nbytes for tensor in inputs)
        expected = tuple(tensor.nbytes for tensor in outputs)
        size = sent[0]
        disjoint = _lie_apart(zip(sources, sent, strict=True), zip(targets, expected, strict=True))
        even = disjoint and {size} == {*sent, *expected}
        where = self._where_all(inputs, sources) if even else CLOSED
        bytes_each = size if even else CLOSED
        moved = self.group.all_to_all(self, call.encoded, targets, sources, bytes_each, where)
        if moved is False:
            raise self._mismatch()
        if moved:
            return
        places = tuple(
            self._where(place) if size else 0 for place, size in zip(sources, sent, strict=True)
        )
        places = places if disjoint else (CLOSED,) * len(inputs)
        self._exchange(targets, sources, sent, expected, places, inputs[0].itemsize)

    def exchange_even(self, output: Tensor, tensor: Tensor) -> None:
        """End an all_to_all of equal parts that follow each other, where others' are uneven."""
        source, target, whole = tensor.data_ptr(), output.data_ptr(), tensor.nbytes
        ranks = len(self._peers)
        starts = range(0, whole, whole // ranks)
        targets, sources = (tuple(first + at for at in starts) for first in (target, source))
        disjoint = apart(source, whole, target, whole)
        places = tuple(self._where(place) if disjoint else CLOSED for place in sources)
        sizes = (whole // ranks,) * ranks
        self._exchange(targets, sources, sizes, sizes, places, tensor.itemsize)

    def refuse(self) -> None:
        """Raise the error of ranks that call different things."""
        raise self._mismatch()

    def _exchange(
        self,
        targets: tuple[int, ...],
        sources: tuple[int, ...],
        sent: tuple[int, ...],
        expected: tuple[int, ...],
        places: tuple[int, ...],
        itemsize: int,
    ) -> None:
        if self.group.exchange(self, targets, sources, sent, expected, places) is None:
            raise self._unequal(itemsize)

    def _unequal(self, itemsize: int) -> SteptimeError:
        """What the ranks have told in an exchange, whose sizes differ."""
        ranks = len(self._peers)
        rows = [
            self._memory[start : start + 24 * ranks].cast("Q").tolist()
            for rank in range(ranks)
            for start in [(self.state.turn * ranks + rank) * self._slot_bytes]
        ]
        sent = torch.tensor([row[1::3] for row in rows]) // itemsize
        expected = torch.tensor([row[2::3] for row in rows]).T // itemsize
        return self.unequal(sent, expected)

    def _where_all(self, tensors: Sequence[Tensor], places: tuple[int, ...]) -> int:
        """The offset of equal tensors that follow each other; CLOSED where they do not."""
        first, size = places[0], tensors[0].nbytes
        following = all(place == first + i * size for i, place in enumerate(places))
        return self._where(first) if following else CLOSED

    def _where(self, place: int) -> int:
        """The offset in this rank's arena of an address; CLOSED where that lies elsewhere."""
        found = self._arena.offset(place)
        return CLOSED if found is None else found

    def watch(self, waiting: int) -> None:
        """What C calls while it waits."""
        if waiting:
            self._watch()
        else:
            self.members.forget()

    def mapping(self, rank: int, offset: int) -> tuple[int, int, int]:
        """The part of a rank's arena around an offset: its bounds, and where it is mapped."""
        return self._peers[rank].arena.mapping(offset)


def _lie_apart(some: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> bool:
    """Whether no byte lies in both of two lists of addresses and bytes, at the first glance."""
    ends = [
        (min(start for start, _ in spans), max(start + size for start, size in spans))
        for spans in (tuple(some), tuple(others))
    ]
    (low, high), (lowest, highest) = ends
    return high <= lowest or highest <= low


def in_use() -> bool:
    """Whether the environment of this process lets groups use the kernel in C."""
    return chosen(os.environ)
