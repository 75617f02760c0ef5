"""Moving bytes over several connections at once: in C where that was built, else in Python."""

import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from steptime.backend.host.kernel import move_in_c

Job: TypeAlias = tuple[int, int, memoryview | None]
"""What is to be done with a connection: its file descriptor; select.POLLIN to fill the memory, or
POLLOUT to send it; None for the memory where only the event is asked for."""

Move: TypeAlias = Callable[[list[Job], float, float], tuple[bool, Sequence[int]]]
"""``move(jobs, look_s, nap_s)``: look for ``look_s`` seconds, then sleep for ``nap_s`` at most,
until something of the jobs can be done, and do it.

Returns whether it slept, and for each job the bytes that moved, or -1 where the connection is lost;
for one without memory the events of poll(2), or 0.
"""


def mover() -> Move:
    """The way to move bytes that the environment of this process chooses."""
    return move_in_c() or move


def move(jobs: list[Job], look_s: float, nap_s: float) -> tuple[bool, Sequence[int]]:
    """A Move in Python, which does at once what can be done and returns."""
    poll, wanted = select.poll(), dict[int, int]()
    for fd, event, _ in jobs:
        wanted[fd] = wanted.get(fd, 0) | event
    for fd, events in wanted.items():
        poll.register(fd, events)
    until = time.perf_counter() + look_s
    while not (ready := poll.poll(0)) and time.perf_counter() < until:
        os.sched_yield()
    slept = not ready
    found = dict(ready or poll.poll(1000 * nap_s))
    return slept, [_done(job, found.get(job[0], 0)) for job in jobs]


def _done(job: Job, events: int) -> int:
    """What came of a job after these events."""
    fd, event, memory = job
    events &= event | select.POLLERR | select.POLLHUP
    if memory is None or not events:
        return events
    connection = socket.socket(fileno=fd)
    try:
        with suppress(BlockingIOError):
            if event == select.POLLOUT:
                return connection.send(memory)
            return connection.recv_into(memory) or -1
    except OSError:
        return -1
    finally:
        connection.detach()
    return 0
