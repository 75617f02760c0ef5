"""Mailbox: a folder through which ranks started by mpiexec talk to the steptime that started it.

Rank r opens the FIFO ``r`` for writing, and steptime for reading, so that each sees when the other
ends. Process p writes an error to ``p.error``.
"""

import json
import os
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


@contextmanager
def make_mailbox(folder: Path, ranks: int) -> Iterator[list[int]]:
    """Make ``folder`` this process's mailbox inside the ``with`` block.

    Yields a list of the ranks that have ended, in the order in which they did.
    """
    readers = {}
    for rank in range(ranks):
        os.mkfifo(folder / str(rank))
        readers[os.open(folder / str(rank), os.O_RDONLY | os.O_NONBLOCK)] = rank
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
        while not over.is_set():
            for reader, _ in ends.poll(_LOOK_S):
                ends.unregister(reader)
                ended.append(readers[reader])


def open_mailbox(environ: Mapping[str, str]) -> Callable[[], None] | None:
    """Tell steptime that this rank lives; call the result to wait until steptime ends.

    None in a process that has no mailbox.
    """
    world = detect(environ)
    if MAILBOX_VARIABLE not in environ or world is None:
        return None
    writer = os.open(Path(environ[MAILBOX_VARIABLE]) / str(world.rank), os.O_WRONLY)
    end = select.poll()
    end.register(writer, 0)  # an error, which is what a FIFO without reader is, always counts

    def wait() -> None:
        end.poll()

    return wait


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
