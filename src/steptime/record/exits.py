"""How a process ends: in order, or by an exception that nobody caught."""

import sys
import time
from collections.abc import Callable
from traceback import walk_tb
from types import TracebackType

from steptime.record.events import Log
from steptime.record.places import is_ours

_LONGEST = 1000


def install(log: Log) -> Callable[[], None]:
    """Write down the exception that ends this process, from now on; the result ends that."""
    before = sys.excepthook
    noted: list[BaseException] = []

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        noted.append(error)
        _note(log, error, trace)
        before(kind, error, trace)

    sys.excepthook = hook

    def remove() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before
        # Where the script has a hook of its own, Python remembers what it called it with.
        last = getattr(sys, "last_value", None)
        if last is not None and not noted:
            _note(log, last, last.__traceback__)

    return remove


def _note(log: Log, error: BaseException, trace: TracebackType | None) -> None:
    """Write down an exception and the innermost place of the user's own code that it came from."""
    of_user = [(frame.f_code, line) for frame, line in walk_tb(trace) if not is_ours(frame)]
    log.note(
        raised=type(error).__name__,
        message=_message(error),
        at=log.site(*of_user[-1]) if of_user else 0,
        at_ns=time.perf_counter_ns(),
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except Exception:  # of a class of the script
        return ""
