"""What a gradient-sync strategy is: who updates what, and two movements of a bucket.

Its functions are written once. A training calls them with tensors and real ranks; a Program is made
of what they ask of a communicator that only writes it down (``calls``).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steptime.strategies.span import Span


class Work(Protocol):
    """A collective under way."""

    def wait(self) -> None:
        """Block until it is done."""


class Vector(Protocol):
    """A bucket of gradients or parameters: a 1-D tensor, or what stands for one."""

    def chunk(self, chunks: int, /) -> Sequence[Any]:
        """So many parts of it, equal where ``chunks`` divides the length."""


class Communicator(Protocol):
    """The collectives of one rank, each started at once."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""

    def all_reduce(self, vector: Any, /) -> Work:
        """Sum a vector over all ranks, in place."""

    def reduce(self, vector: Any, /, root: int) -> Work:
        """Sum a vector over all ranks into that of ``root``; the others' become scratch."""

    def broadcast(self, vector: Any, /, root: int) -> Work:
        """Copy the vector of ``root`` into every rank's."""

    def reduce_scatter(self, vector: Any, /) -> Work:
        """Sum a vector over all ranks; this rank's equal share of it receives its sum."""

    def all_gather(self, vector: Any, /) -> Work:
        """Fill a vector with every rank's own equal share of it."""

    def barrier(self) -> Work:
        """Let every rank wait for all."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to turn every rank's gradients into the same updated parameters on all ranks.

    ``owned(bucket, rank, ranks)`` is the part of a bucket that this rank's optimizer updates;
    optimizer state exists for it alone. ``reduce`` starts what brings the summed gradients of a
    bucket to the ranks that own them, ``share`` what brings updated parameters to all. With
    ``overlapped`` the gradients are cut into buckets, each reduced as soon as backward has
    completed it, and shared while later buckets are updated and the next forward runs. With
    ``in_shared_memory`` every rank's gradients lie where the others can read them, and the
    parameters are one copy that all ranks of the host compute with, so all must be on one.

    ``zero``: the stage of ZeRO that it is (Rajbhandari et al., arXiv 1910.02054). In stage 2
    gradients are reduced after every micro-batch, and in stage 3 ``gather`` starts what brings a
    unit's parameters to all before each forward and backward. ``known_as``: what others call it.

    ``not_trained`` and ``not_simulated`` say, in half a sentence, why it cannot be: it is left out
    of all strategies there, and refused by its name.
    """

    name: str
    summary: str
    owned: Callable[[Span, int, int], Span]
    reduce: Callable[[Communicator, Vector], Iterable[Work]]
    share: Callable[[Communicator, Vector], Iterable[Work]]
    gather: Callable[[Communicator, Vector], Iterable[Work]] | None = None
    overlapped: bool = False
    in_shared_memory: bool = False
    zero: int | None = None
    known_as: tuple[str, ...] = ()
    not_trained: str = ""
    not_simulated: str = ""

    @property
    def whole(self) -> bool:
        """Whether each rank keeps all gradients and parameters: the replicas that are compared."""
        return (self.zero or 0) < 2
