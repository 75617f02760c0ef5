"""Processes of this host that work out points, one thread each, and end with the sweep."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.synchronize import Lock
from threading import Thread
from types import ModuleType
from typing import Any, TypeVar

R = TypeVar("R")
_SENT_S = 30.0
"""A result is sent by then, if nobody was killed who was at it."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def local_processes(number: int) -> Iterator["Processes"]:
    """So many processes, gone when the block ends, whatever they are at."""
    context = get_context("spawn")
    end, begin = context.Pipe(duplex=False)
    processes = Processes(number, context, end)
    try:
        yield processes
        begin.close()
        processes.shutdown()
    finally:
        begin.close()
        processes.shutdown(cancel_futures=True)
        end.close()


class Processes(ProcessPoolExecutor):
    """Processes that do not run the user's script again, so it needs no guard around its calls.

    They leave once the other side of ``end`` is closed.
    """

    def __init__(self, number: int, context: SpawnContext, end: Connection) -> None:
        super().__init__(number, context)
        # Whoever left amid a result would leave a part of it, and the sweep waits for the rest.
        results: Any = self._result_queue
        self._initializer, self._initargs = _begin, (end, results._wlock)

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Let one of them call ``fn``; processes are started here, as they are needed."""
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")  # what a started process would run first
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            sys.modules["__main__"] = script


def one_thread() -> None:
    """Let this process compute with one thread: there are as many processes as shall compute."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))


def _begin(end: Connection, sending: Lock) -> None:
    """Be a worker until the sweep closes its end of the pipe, or dies."""
    one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep hears it, and ends its workers
    Thread(target=_leave, args=(end, sending), daemon=True).start()


def _leave(end: Connection, sending: Lock) -> None:
    sweep = parent_process()
    wait([end, *([sweep.sentinel] if sweep else [])])
    if sending.acquire(timeout=_SENT_S):
        sending.release()  # for the other workers; this one is gone before it could send
    os._exit(1)
