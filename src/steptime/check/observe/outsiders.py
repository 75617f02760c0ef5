"""Outsiders: calls of a rank in a group that it is not in, of which PyTorch makes nothing."""

from collections.abc import Callable

from torch.distributed import distributed_c10d

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

OUTSIDE = "outside"
"""What is noted once of a line that calls in a group without its rank."""


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted: set[tuple[str, int]] = set()

    def outside(call: str) -> None:
        at = site(log)
        if (call, at) not in noted:
            noted.add((call, at))
            log.note(observed=OUTSIDE, call=call, at=at)

    look = Contained("calls in other groups").of(outside)
    return before([distributed_c10d], "_warn_not_in_group", look)


OBSERVER = Observer(_observe)
