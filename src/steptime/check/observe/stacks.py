"""Python's stacks of this process, written to a file whenever the watch asks.

A thread answers, which the watch wakes by a byte in a pipe: as it holds the interpreter's lock, no
frame changes while it writes. A rank that hangs in C++ and keeps that lock can only be asked by a
signal, whose handler is ``faulthandler``'s and needs no lock. It must not interrupt Python that
runs: a function that is being entered or left has no whole frame, and reading it can end the
process.
"""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from types import FrameType

from steptime.check.observe.observer import Observer
from steptime.check.stacks import SIGNAL, STACKS
from steptime.record.events import Log
from steptime.record.exits import message_of
from steptime.record.places import raised_at

_FRAMES = 100
"""So many of a thread are written, the innermost, as ``faulthandler`` does."""


def observe(log: Log, _: object) -> Callable[[], None]:
    """Write the stacks of all threads beside the log when asked, below where to ask."""
    asked, ask = os.pipe()
    file = log.path.with_suffix(STACKS).open("wb", buffering=0)
    file.write(f"{ask} {Path(f'/proc/self/fd/{ask}').readlink()}\n".encode())
    threading.Thread(target=_answer, args=(asked, file), daemon=True).start()
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)

    def in_child() -> None:
        # Else a forked child would answer into the file of its parent.
        faulthandler.unregister(SIGNAL)
        signal.signal(SIGNAL, signal.SIG_IGN)

    os.register_at_fork(after_in_child=in_child)
    return lambda: None  # the watch may ask until the very end


def _answer(asked: int, file: FileIO) -> None:
    while os.read(asked, 1):
        # In one piece: who reads may come at any time.
        file.write(_stacks().encode(errors="backslashreplace"))


def _stacks() -> str:
    """The stacks of all threads but this one, the main one first."""
    frames, handled = sys._current_frames(), sys._current_exceptions()
    del frames[threading.get_ident()]  # it has these frames, and so would keep them
    main = threading.main_thread().ident
    threads = sorted(frames, key=lambda one: one != main)
    return "".join(
        line for one in threads for line in _lines(one, frames[one], _error(handled.get(one)))
    )


def _error(handled: object) -> BaseException | None:
    """The exception that a thread handles: Python 3.11 tells it as ``sys.exc_info`` does."""
    error = handled[1] if isinstance(handled, tuple) else handled
    return error if isinstance(error, BaseException) else None


def _lines(thread: int, innermost: FrameType, error: BaseException | None) -> Iterator[str]:
    """A thread's stack as ``faulthandler`` writes it, and below it what the thread handles."""
    yield f"Thread 0x{thread:016x} (most recent call first):\n"
    for frame, line in islice(walk_stack(innermost), _FRAMES):
        yield f'  File "{frame.f_code.co_filename}", line {line or 0} in {frame.f_code.co_name}\n'
    if error is not None and (where := raised_at(error.__traceback__)):
        code, line = where[0]
        said = " ".join(message_of(error).split())
        yield f'  Handling {type(error).__name__} of "{code.co_filename}", line {line}: {said}\n'


OBSERVER = Observer(observe)
