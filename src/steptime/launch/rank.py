"""A rank's side of its launcher: report errors to it, and end when it ends."""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from steptime.errors import SteptimeError
from steptime.launch.mailbox import open_mailbox, post_error
from steptime.world.environment import LAUNCHER_VARIABLE, LostContactError


def follow_launcher(environ: Mapping[str, str]) -> threading.Event:
    """End this process as soon as steptime's launcher ends, even when that is killed by SIGKILL.

    The kernel closes the launcher's end of the socket or FIFO in every case, and a thread waits for
    that. Does nothing in a process that steptime's launcher did not start. The returned event is
    set when the launcher says that all ranks have returned (``Job.release``).
    """
    released = threading.Event()
    end = _end_of_socket(environ, released) or open_mailbox(environ)
    if end is None:
        return released

    def watch() -> None:
        end()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    return released


def _end_of_socket(
    environ: Mapping[str, str], released: threading.Event
) -> Callable[[], None] | None:
    """A function that waits until the launcher closes its end of this rank's socket, if any."""
    descriptor = environ.get(LAUNCHER_VARIABLE)
    if descriptor is None:
        return None

    def wait() -> None:
        with suppress(ConnectionResetError):
            while os.read(int(descriptor), 1):
                released.set()

    return wait


def tell_launcher(environ: Mapping[str, str], message: Mapping[str, object]) -> None:
    """Send a message from this rank to steptime's launcher."""
    with suppress(BrokenPipeError):
        os.write(int(environ[LAUNCHER_VARIABLE]), json.dumps(message).encode())


def report_error(environ: Mapping[str, str], error: SteptimeError) -> bool:
    """Send ``error`` to steptime's launcher, which decides what to print for all ranks.

    False when another launcher, or none, started this process: then the caller must print it.
    """
    descriptor = environ.get(LAUNCHER_VARIABLE)
    report = {
        "error": str(error),
        "exit_code": error.exit_code,
        "lost_contact": isinstance(error, LostContactError),
    }
    if descriptor is None:
        return post_error(environ, report)
    tell_launcher(environ, report)
    return True


def end_rank(exit_code: int) -> NoReturn:
    """End this process after an error without waiting for its collectives in flight.

    A normal exit would wait for them, and their other ranks may never come.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
