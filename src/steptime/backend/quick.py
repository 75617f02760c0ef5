"""Quick: calls that C carries out as they are, past all that makes others fit.

What Python does for a small all_reduce takes longer than the all_reduce itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steptime.backend.host import HostGroup
from steptime.backend.host.kernel import quick_in_c
from steptime.backend.requests import BY_NUMBER
from steptime.world.compat import CallOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.host._kernel import Quick
    from steptime.backend.lanes import Lane
    from steptime.backend.requests import Names

DEFAULT = CallOptions()
"""What a call is given that is given nothing."""


class Never:
    """In the place of what C does, for groups that are not in C: it does nothing, and says so."""

    def all_reduce(self, tensors: Sequence[Tensor], opts: Any, /) -> bool:  # noqa: ARG002
        """Leave it to others, as all that follow."""
        return False

    def broadcast(self, tensors: Sequence[Tensor], opts: Any, /) -> bool:  # noqa: ARG002
        """Leave it."""
        return False

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any, /) -> bool:  # noqa: ARG002
        """Leave it."""
        return False

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any, /) -> bool:  # noqa: ARG002
        """Leave it."""
        return False

    def all_to_all_single(self, *_: Any) -> bool:
        """Leave it."""
        return False


def quick(engine: Engine, names: Names, lane: Lane) -> Quick | Never:
    """The collectives of a group that need no more than the kernel, on its lane of collectives.

    They take what the methods of that name of SteptimeGroup take, and return whether they have done
    it; they raise what it fails with.
    """
    if not isinstance(engine, HostGroup) or engine.kernel is None:
        return Never()

    def failed(error: BaseException) -> None:
        lane.keep(error)
        engine.break_off(error)

    return quick_in_c(engine.kernel, lane, failed, BY_NUMBER, names)
