"""Bounded reads and atomic writes of files.

A killed process leaves no damaged file, and no file that a user names fills the memory.
"""

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

from steptime.errors import UsageError

_MOST_TEXT = 1 << 20
_PIECE = 1 << 24


def bounded_text(path: Path, what: str, most: int = _MOST_TEXT) -> str:
    """The text of the file ``path``; see ``bounded_bytes``. Raises UsageError if it is no UTF-8."""
    try:
        return bounded_bytes(path, what, most).decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the {what} {path}: it is no text") from None


def bounded_bytes(path: Path, what: str, most: int) -> bytes:
    """The content of the file ``path``, at most ``most`` bytes; errors call it ``what``.

    A file whose name ends in .gz is unpacked, and the bound is on its content.

    Raises UsageError where it is no file, cannot be read, or is larger.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise UsageError(f"{path} is no {what}: it is not even a file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = b"".join(_pieces(file, most + 1))
    except (OSError, ValueError, EOFError, zlib.error) as error:
        why = (isinstance(error, OSError) and error.strerror) or f"{error}"
        raise UsageError(f"cannot read the {what} {path}: {why}") from None
    if len(content) > most:
        raise UsageError(f"{path} is no {what}: it has more than {most:,} bytes")
    return content


def _pieces(file: BufferedIOBase, most: int) -> Iterator[bytes]:
    """A file's content in pieces: reading ``most`` bytes at once would allocate all of them."""
    while most and (piece := file.read(min(most, _PIECE))):
        yield piece
        most -= len(piece)


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
