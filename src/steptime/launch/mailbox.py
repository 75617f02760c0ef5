"""Mailbox: a folder through which ranks started by mpiexec talk to the steptime that started it.

Rank r opens the FIFOs ``r.low`` and ``r.high`` for writing, and steptime for reading, so that each
sees when the other ends. Process p writes an error to ``p.error``.

There are two because mpiexec ends the other ranks as soon as one that dies drops its connection to
it. Linux closes the files of a process from the lowest descriptor up or from the highest down, so
with one below that connection and one above it, steptime sees first which rank died first.
"""

import fcntl
import json
import os
import resource
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from steptime.errors import SteptimeError, error_of
from steptime.world.environment import detect

MAILBOX_VARIABLE = "STEPTIME_MAILBOX"
"""Set by steptime for the ranks that mpiexec starts: the path of the folder."""

_LOOK_S = 0.1
_HIGH = 500
"""More descriptors than a rank has open; half of the limit where that is lower than usual."""


@contextmanager
def make_mailbox(folder: Path, ranks: int) -> Iterator[list[int]]:
    """Make ``folder`` this process's mailbox inside the ``with`` block.

    Yields a list of the ranks that have ended, in the order in which they did; it is whole once the
    block is over.
    """
    readers = {}
    for rank in range(ranks):
        for path in _ends(folder, rank):
            os.mkfifo(path)
            readers[os.open(path, os.O_RDONLY | os.O_NONBLOCK)] = rank
    ended: list[int] = []
    over = threading.Event()
    # mpiexec ends the others of a rank that died at once: only who looks all the time sees which
    # was first.
    watch = threading.Thread(target=_watch, args=(readers, ended, over))
    watch.start()
    try:
        yield ended
    finally:
        over.set()
        watch.join()
        for reader in readers:
            os.close(reader)


def _watch(readers: Mapping[int, int], ended: list[int], over: threading.Event) -> None:
    with select.epoll() as ends:
        for reader in readers:
            ends.register(reader, select.EPOLLHUP)
        while True:
            last = over.is_set()  # before the look: what ended by then is seen by this one
            for reader, _ in ends.poll(0 if last else _LOOK_S):
                ends.unregister(reader)
                if (rank := readers[reader]) not in ended:
                    ended.append(rank)
            if last:
                return


def open_mailbox(environ: Mapping[str, str]) -> Callable[[], None] | None:
    """Tell steptime that this rank lives; call the result to wait until steptime ends.

    None in a process that has no mailbox.
    """
    world = detect(environ)
    if MAILBOX_VARIABLE not in environ or world is None:
        return None
    folder = Path(environ[MAILBOX_VARIABLE])
    low, high = (os.open(path, os.O_WRONLY) for path in _ends(folder, world.rank))
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fcntl.fcntl(high, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, most // 2))
    os.close(high)
    end = select.poll()
    end.register(low, 0)  # an error, which is what a FIFO without reader is, always counts

    def wait() -> None:
        end.poll()

    return wait


def _ends(folder: Path, rank: int) -> tuple[Path, Path]:
    return folder / f"{rank}.low", folder / f"{rank}.high"


def post_error(environ: Mapping[str, str], report: Mapping[str, object]) -> bool:
    """Post the report of an error; False in a process that has no mailbox."""
    if MAILBOX_VARIABLE not in environ:
        return False
    (Path(environ[MAILBOX_VARIABLE]) / f"{os.getpid()}.error").write_text(json.dumps(report))
    return True


def errors_in(folder: Path) -> list[SteptimeError]:
    """The errors that ranks posted; consequences of another rank's error come last."""
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("*.error"))]
    reports.sort(key=lambda report: report["lost_contact"])
    return [error_of(report["error"], report["exit_code"]) for report in reports]
