"""The one reader of files from elsewhere, and atomic writes.

No file that a user names fills the memory, hangs a read or ends in a traceback: a reader takes its
content from ``bounded_bytes`` or ``bounded_text`` and works on it within ``reading``. A killed
process leaves no damaged file.
"""

import gzip
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from steptime.errors import SteptimeError, UsageError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_T = TypeVar("_T")
_MOST_TEXT = 1 << 20
_PIECE = 1 << 24
_EXPANDS = 100
"""What a packed file may unpack to, as a multiple of its size: ours unpack to 15 to 60 times."""

_ALWAYS_UNPACKED = 64 << 20  # bytes, whatever the size of the packed file
_LONGEST_REASON = 300  # characters; some parsers quote what they were given


@contextmanager
def reading(path: Path | str, what: str, mend: str = "") -> Iterator[None]:
    """Turn whatever goes wrong in the block into a UsageError: it is the fault of the file.

    ``what``: what the file should be; ``mend``: how to mend that. A file may hold anything, so no
    list of exceptions would be whole; the last one is kept as the cause. A sentence of our own
    stays as it is, behind the name of the file where it lacks that.
    """
    try:
        yield
    except SteptimeError as error:
        if f"{path}" in str(error):
            raise
        raise type(error)(f"{path}: {error}") from None
    except Exception as error:
        mended = f"; {mend}" if mend else ""
        raise UsageError(f"cannot read the {what} {path}: {_reason(error)}{mended}") from error


def _reason(error: Exception) -> str:
    """Why a file could not be read, in half a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return "it holds more than there is memory for"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"it lacks {text}"
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]} …"


def bounded_text(path: Path, what: str, most: int = _MOST_TEXT) -> str:
    """The text of the file ``path``; see ``bounded_bytes``. Raises UsageError if it is no UTF-8."""
    try:
        return bounded_bytes(path, what, most).decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the {what} {path}: it is no text") from None


def bounded_bytes(path: Path, what: str, most: int) -> bytes:
    """The content of the file ``path``, at most ``most`` bytes; errors call it ``what``.

    A file whose name ends in .gz is unpacked: the bound is on its content, which is at most a
    hundred times the file, or 64 MiB.

    Raises UsageError where it is no regular file, cannot be read, or is larger.
    """
    with opened(path, what) as file:
        packed = path.suffix == ".gz"
        if packed:
            size = os.fstat(file.fileno()).st_size
            most = min(most, max(_EXPANDS * size, _ALWAYS_UNPACKED))
        with gzip.open(file) if packed else file as unpacked:
            content = b"".join(_pieces(unpacked, most + 1))
    if len(content) > most:
        raise UsageError(f"{path} is no {what}: it has more than {most:,} bytes")
    return content


@contextmanager
def opened(path: Path, what: str) -> Iterator[IO[bytes]]:
    """The regular file ``path``, open for reading in the block; errors as ``reading`` has them.

    A pipe or a device might never end, and to open a pipe may wait for ever.
    """
    with reading(path, what), open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UsageError(f"{path} is no {what}: it is not even a file")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _pieces(file: BufferedIOBase | IO[bytes], most: int) -> Iterator[bytes]:
    """A file's content in pieces: reading ``most`` bytes at once would allocate all of them."""
    while most and (piece := file.read(min(most, _PIECE))):
        yield piece
        most -= len(piece)


def parsed_json(content: bytes | str, of: type[_T] | None = None) -> _T:
    """What JSON holds, checked against the type ``of``; what that does not name is skipped.

    Raises an error for ``reading`` to tell where it is no JSON, NaN and Infinity included, or of
    another type.
    """
    import msgspec

    try:
        return cast("_T", msgspec.json.decode(content, type=of or Any))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None


def checked(value: Any, of: type[_T]) -> _T:
    """Plain JSON as the type ``of``; raises an error for ``reading`` to tell where it is none."""
    import msgspec

    return msgspec.convert(value, of)


def parsed_toml(text: str) -> dict[str, Any]:
    """The top table of a TOML file; raises an error for ``reading`` to tell where it is none."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is no TOML ({error})") from None


def parsed_xml(text: str) -> "Element":
    """The root of an XML document without a document type, whose entities could grow without end.

    Raises an error for ``reading`` to tell where it is no such document.
    """
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text:
        raise ValueError("it declares a document type, which it must not")
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - nothing is expanded
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML ({error})") from None


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in pieces, so that a killed run leaves the whole of it or nothing.

    A device or a pipe that is there already is written to: it must not be replaced.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
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
    """Write ``content`` as JSON, atomically; see ``json_text``."""
    write_atomic(path, json_bytes(content))


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """``content`` as a file of JSON; see ``json_text``."""
    return (json_text(content, indent=1) + "\n").encode()


def json_text(content: Mapping[str, Any], indent: int | None = None) -> str:
    """``content`` as JSON; SteptimeError where a number is not finite, which JSON cannot say."""
    try:
        return json.dumps(content, indent=indent, allow_nan=False)
    except ValueError:
        raise SteptimeError(
            "a figure of the answer is infinite or no number: ask for smaller ones"
        ) from None
