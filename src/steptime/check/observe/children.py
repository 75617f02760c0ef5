"""Children of this process by multiprocessing that end badly, as ranks of ``mp.spawn`` may.

Nobody else is told how they end. Those that this process itself ends, as mp.spawn ends all others
with the first that fails, are left out.
"""

import os
import time
import weakref
from collections.abc import Callable
from functools import wraps
from multiprocessing import popen_fork
from typing import Any

from steptime.check.ends import note_end
from steptime.check.observe.observer import Observer
from steptime.record.events import Log


def _observe(log: Log, _: object) -> Callable[[], None]:
    started: Any = popen_fork.Popen
    poll, send = started.poll, started._send_signal
    stopped: weakref.WeakSet[Any] = weakref.WeakSet()

    @wraps(poll)
    def polled(child: Any, flag: int = os.WNOHANG) -> int | None:
        before = child.returncode
        code: int | None = poll(child, flag)
        if before is None and code and child not in stopped:
            note_end(log.path.parents[1], child.pid, code, time.time_ns())
        return code

    @wraps(send)
    def sent(child: Any, number: int) -> None:
        stopped.add(child)
        send(child, number)

    started.poll, started._send_signal = polled, sent

    def remove() -> None:
        started.poll, started._send_signal = poll, send

    return remove


OBSERVER = Observer(_observe)
