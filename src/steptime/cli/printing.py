"""Printing what a person or a program waits for, and in one sentence what went wrong."""

import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from typing import Any, TextIO

from steptime.errors import SteptimeError, UnreadError, UsageError
from steptime.files import json_text

_LONGEST_REASON = 200  # characters of what an exception says


def say(text: str, end: str = "\n") -> None:
    """Print ``text`` and, unless another ``end`` is given, a line end on stdout at once.

    Raises UnreadError when the reader has left, and SteptimeError when the disk is full.
    """
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        _silence(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise UnreadError("nobody reads stdout") from None
        raise SteptimeError(f"cannot print to stdout: {error.strerror}") from None


def say_json(content: Mapping[str, Any]) -> None:
    """Print ``content`` as one JSON object on stdout; raises what ``say`` and ``json_text`` do."""
    say(json_text(content))


@contextmanager
def json_alone(asked: bool) -> Iterator[None]:
    """Have what is printed inside, by processes that are started there too, go to stderr.

    ``asked``: --json was given, which promises stdout to one JSON object.
    """
    if not asked:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _silence(stream: TextIO) -> None:
    """Let go of what is left in the buffer, which would raise once more when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
    steptime's launcher leaves all of it to the launcher. Nobody is told that nobody reads.
    """
    from steptime.launch import report_error

    if report_error(os.environ, error) or isinstance(error, UnreadError):
        return
    text = str(error)
    if isinstance(error, UsageError):
        command = " ".join(filter(None, ("steptime", verb, "--help")))
        text += f" See {command}" if text.endswith("?") else f"; see {command}"
    try:
        print(f"steptime: {text}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    if as_json and _first():
        with suppress(SteptimeError):
            say_json({"error": text})


def mistake(error: Exception) -> SteptimeError:
    """What was not foreseen, in one sentence: the last resort of every door.

    A file in the temporary folder has the details; STEPTIME_DEBUG=1 prints them on stderr too.
    """
    details = "".join(traceback.format_exception(error))
    if os.environ.get("STEPTIME_DEBUG"):
        print(details, file=sys.stderr)
    if isinstance(error, MemoryError):
        return SteptimeError("there is not enough memory for that: ask for less")
    what = type(error).__name__
    if words := " ".join(str(error).split())[:_LONGEST_REASON]:
        what += f" ({words})"
    try:
        handle, path = tempfile.mkstemp(prefix="steptime-mistake-", suffix=".txt")
        with os.fdopen(handle, "w", errors="replace") as file:
            file.write(f"{shlex.join(sys.argv)}\n{details}")
    except OSError:
        path = "STEPTIME_DEBUG=1"
    return SteptimeError(f"a mistake in steptime, please report it: {what}; see {path}")


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
