"""Printing what a person or a program waits for, and in one sentence what went wrong."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap

from steptime.errors import SteptimeError, UsageError


def say(text: str) -> None:
    """Print ``text`` and a line end on stdout at once.

    Raises SteptimeError when that cannot be, since the reader has left or the disk is full.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        # What stays in the buffer would raise once more when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SteptimeError(f"cannot print to stdout: {error.strerror}") from None


def folded(text: str, columns: int) -> str:
    """``text`` in lines of so many columns, cut between words; no path is cut."""
    lines = wrap(
        text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise SteptimeError where a file that the user named cannot be written within the block."""
    try:
        yield
    except OSError as error:
        raise SteptimeError(f"cannot write {path}: {error.strerror}; name another file") from None


def tell_error(error: SteptimeError, verb: str, *, as_json: bool) -> None:
    """Print ``error`` on stderr and, on rank 0 and with ``as_json``, as an object on stdout.

    One of usage names the help of the ``verb``, which is empty where none is known. A rank of
    steptime's launcher leaves all of it to the launcher.
    """
    from steptime.launch import report_error

    if report_error(os.environ, error):
        return
    text = str(error)
    if isinstance(error, UsageError):
        command = " ".join(filter(None, ("steptime", verb, "--help")))
        text += f" See {command}" if text.endswith("?") else f"; see {command}"
    print(f"steptime: {text}", file=sys.stderr)
    if as_json and _first():
        with suppress(SteptimeError):
            say(json.dumps({"error": text}))


def tell_left_out() -> None:
    """Say on stderr which strategies ``all`` leaves out of a simulation, and why."""
    from steptime.strategies import only_trained

    for name, why in only_trained().items():
        print(f"the strategy {name} is not simulated: {why}", file=sys.stderr)


def _first() -> bool:
    """Whether no other rank may print to stdout."""
    from steptime.world import detect

    try:
        world = detect(os.environ)
    except UsageError:
        return True
    return world is None or world.rank == 0
