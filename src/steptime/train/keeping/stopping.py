"""Being asked to stop: a scheduler that needs the machine sends SIGTERM, and kills later."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def asked_to_stop(listens: bool) -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM has come, told by the result within the block; it ends nothing there.

    Where nobody ``listens``, and outside of the main thread, where Python has no signals, SIGTERM
    ends the process as ever.
    """
    came = threading.Event()
    if not listens or threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = signal.signal(signal.SIGTERM, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGTERM, before)
