"""Engine: the interface of whatever carries out the collectives of a group."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from steptime.backend.host import Call
from steptime.backend.reduction import Reduction


class Engine(Protocol):
    """The collectives of one rank of a group; each blocks until this rank's part is done.

    Every tensor is a contiguous vector in CPU memory. ``root``, ``to`` and ``source`` count within
    the group. ``call`` says what is called, for the ranks to agree on and for errors to quote.
    Collectives are called by one thread at a time, in the same order on all ranks; ``send`` and
    ``recv`` by any thread at any time.

    Each raises SteptimeError when the ranks call different things, and LostContactError, which
    names the rank, when one is gone or does not come in time.
    """

    rank: int
    ranks: int

    def barrier(self, call: Call) -> None:
        """Return when all ranks are here."""

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Reduce ``tensor`` in place, on all ranks."""

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Copy the tensor of ``root`` into everyone's."""

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Reduce ``tensor`` into that of ``root``, in place."""

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Fill ``outputs[i]`` with the tensor of rank i; all have the same length."""

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Fill ``output`` with the reduction of everyone's ``inputs[rank]``."""

    def gather(
        self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
    ) -> None:
        """On ``root``, fill ``outputs[i]`` with the ``tensor`` of rank i."""

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """Fill ``output`` of rank i with ``inputs[i]`` of ``root``."""

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Fill ``outputs[i]`` with rank i's ``inputs[rank]``, where ``rank`` is this rank."""

    def send(self, call: Call, tensor: Tensor, to: int, tag: int) -> None:
        """Send a message; returns when ``tensor`` may be changed again."""

    def try_send(self, call: Call, tensor: Tensor, to: int, tag: int) -> bool | Callable[[], None]:
        """Send a message if that needs no waiting.

        Returns whether it was sent, or what waits for the rest of it to leave.
        """

    def recv(self, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive from rank ``source``, or from any rank where it is None; returns the sender."""

    def close(self) -> None:
        """Free the group's memory, threads and connections."""


def even_counts(elements: int, ranks: int) -> list[int]:
    """Split ``elements`` among ranks as evenly as possible: the first ranks get one more."""
    share, rest = divmod(elements, ranks)
    return [share + (rank < rest) for rank in range(ranks)]


def as_bytes(tensor: Tensor) -> Tensor:
    """A view of a vector of any dtype as a vector of bytes."""
    return tensor.view(torch.uint8)
