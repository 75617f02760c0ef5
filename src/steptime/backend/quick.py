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
    from steptime.backend.engine import Engine
    from steptime.backend.host._kernel import Quick
    from steptime.backend.lanes import Lane
    from steptime.backend.requests import Names

DEFAULT = CallOptions()
"""What a call is given that is given nothing."""


class Never:
    """In the place of what C does, for a group that is not in C: it leaves every call to others."""

    def _leave(self, *_: Any) -> bool:
        return False

    all_reduce = broadcast = all_gather_single = reduce_scatter_single = all_to_all_single = _leave


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
