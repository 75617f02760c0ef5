"""What a gradient-sync strategy is: who updates what, and two movements of a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steptime.train.layout import Span

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.world.communicator import Communicator, Work


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
    """

    name: str
    summary: str
    owned: Callable[[Span, int, int], Span]
    reduce: Callable[[Communicator, Tensor], Iterable[Work]]
    share: Callable[[Communicator, Tensor], Iterable[Work]]
    overlapped: bool = False
    in_shared_memory: bool = False
