"""Python's stacks of this process, written to a file whenever the watch asks by a signal.

The handler is C code that needs no lock of the interpreter: a rank that hangs in C++ and holds that
lock answers, too.
"""

import faulthandler
import os
import signal
from collections.abc import Callable

from steptime.check.observe.observer import Observer
from steptime.check.stacks import SIGNAL, STACKS
from steptime.record.events import Log


def observe(log: Log, _: object) -> Callable[[], None]:
    """Write the stacks of all threads beside the log when the signal comes."""
    path = log.path.with_suffix(STACKS)
    file = path.open("ab", buffering=0)
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)

    def in_child() -> None:
        # Else a forked child would answer into the file of its parent.
        faulthandler.unregister(SIGNAL)
        signal.signal(SIGNAL, signal.SIG_IGN)

    os.register_at_fork(after_in_child=in_child)
    return lambda: None  # the watch may ask until the very end


OBSERVER = Observer(observe)
