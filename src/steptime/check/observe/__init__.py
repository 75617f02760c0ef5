"""Observers: what only the rank's own process can see, noted in its log for the judges.

One file each, whose OBSERVER is installed where a recording starts, if ``check`` asked for it.
"""

from collections.abc import Callable

from steptime.record.calls import Calls
from steptime.record.events import Log


def install(log: Log, calls: Calls) -> Callable[[], None]:
    """Observe this process from now on; the result ends that."""
    from steptime.check.observe.observer import Observer
    from steptime.discovery import members

    leave = [one.observe(log, calls) for one in members(__name__, "OBSERVER", Observer)]

    def remove() -> None:
        for function in reversed(leave):  # two may have replaced the same function
            function()

    return remove
