"""How a process and its threads end: in order, or by an exception that nobody caught."""

import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess, current_process
from types import TracebackType

from steptime.record.events import Log
from steptime.record.places import raised_at

_LONGEST = 1000


def install(log: Log) -> Callable[[], None]:
    """Write down what ends this process or a thread of it from now on; the result ends that."""
    before, before_thread = sys.excepthook, threading.excepthook
    noted: list[BaseException] = []
    run = BaseProcess.run
    ended_run: list[BaseException] = []

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        noted.append(error)
        _note(log, error, trace)
        before(kind, error, trace)

    def thread_hook(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
            _note(log, ended.exc_value, ended.exc_traceback, "thread_raised")
        before_thread(ended)

    def kept_run(process: BaseProcess) -> None:
        # From 3.13 on Python has let go of what ends a child before its recording ends.
        try:
            run(process)
        except BaseException as error:
            if process is current_process():
                ended_run[:] = [error]
            raise

    sys.excepthook, threading.excepthook = hook, thread_hook
    BaseProcess.run = kept_run  # type: ignore[method-assign, assignment]

    def remove() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before
        if threading.excepthook is thread_hook:
            threading.excepthook = before_thread
        if BaseProcess.run is kept_run:
            BaseProcess.run = run  # type: ignore[method-assign]
        # Where the script has a hook of its own, Python remembers what it called it with.
        passing = sys.exc_info()[1] or next(iter(ended_run), None)
        last = getattr(sys, "last_value", None) or _ends_child(passing)
        if last is not None and not noted:
            _note(log, last, last.__traceback__)
        ended_run.clear()

    return remove


def _ends_child(error: BaseException | None) -> BaseException | None:
    """What ends a child of multiprocessing, which calls no hook for it; None in good order.

    mp.spawn catches it and exits with a code: then it is what that exit came of.
    """
    if not isinstance(error, SystemExit):
        return error
    return (error.__context__ or error) if error.code not in (None, 0) else None


def _note(
    log: Log, error: BaseException, trace: TracebackType | None, what: str = "raised"
) -> None:
    """Write down an exception and the innermost place of the user's own code that it came from."""
    where = raised_at(trace)
    facts = {
        what: type(error).__name__,
        "message": message_of(error),
        "at": log.site(*where[0], where[1]) if where else 0,
        "at_ns": time.perf_counter_ns(),
    }
    log.note(**facts)


def message_of(error: BaseException) -> str:
    """What an exception says; empty where it cannot say it."""
    try:
        return str(error)[:_LONGEST]
    except Exception:  # of a class of the script
        return ""
