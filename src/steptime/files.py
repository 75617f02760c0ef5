"""Files read with a bound, and written whole or not at all.

A killed process leaves none that is damaged, and no file that somebody names fills memory.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from steptime.errors import UsageError

_MOST_TEXT = 1 << 20


def bounded_text(path: Path, what: str, most: int = _MOST_TEXT) -> str:
    """The text of the file ``path``, of ``most`` bytes at most; errors call it ``what``.

    Raises UsageError where it is no file, cannot be read, is larger, or is no UTF-8.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise UsageError(f"{path} is no {what}: it is not even a file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or f"{error}"
        raise UsageError(f"cannot read the {what} {path}: {why}") from None
    if len(content) > most:
        raise UsageError(f"{path} is no {what}: it has more than {most:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the {what} {path}: it is no text") from None


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in pieces, so that a killed run leaves the whole of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a killed run leaves the whole of it or nothing."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON, atomically."""
    write_atomic(path, (json.dumps(content, indent=1) + "\n").encode())
