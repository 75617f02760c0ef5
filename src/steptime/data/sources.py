"""Sources of text, read in blocks: the same blocks whoever reads them, and however often.

A block is about a mebibyte of whole documents or lines, so memory does not grow with a file. It
ends where its content says, never where a read happened to end: reading may begin again at any
``Place`` and gives the same blocks from there.
"""

import gzip
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from steptime.errors import UsageError
from steptime.files import opened, reading
from steptime.train.prepared import Place, Source

END_OF_DOCUMENT = b"<|endoftext|>"
"""What separates documents within a text, as in TinyStories."""

BLOCK = 1 << 20  # bytes of unpacked content
_MOST_LINE = 1 << 24  # bytes; a line must fit into memory, several times over
_MAGICS = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd", ".parquet": b"PAR1"}
_GAP = re.compile(rb"(?<=[!-~])[ \n](?=[!-~])")
"""A single blank between two words: no token of any tokenizer here reaches across its front."""

_LOOK_BACK = 1 << 16  # bytes in which a gap is looked for


@dataclass(frozen=True)
class Block:
    """Some documents of a source."""

    path: str
    place: Place
    content: bytes | tuple[str, ...]
    """Raw text or lines of JSON; of Parquet the documents themselves."""

    lines: bool
    """Whether the content is lines of JSON."""

    read: int
    """Bytes of the file, packed as it is, that were read up to this block's end."""

    @property
    def size(self) -> int:
        """What the content takes in memory, in bytes, about."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return sum(len(text) for text in self.content)


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def find_sources(paths: Sequence[Path]) -> list[Source]:
    """The files that are named, and those in named folders, sorted by path within each.

    Hidden and empty files of a folder are left out. Every file is opened once. Raises UsageError
    for one that is missing, cannot be read, is empty, or is not what its name says.
    """
    found = [file for path in paths for file in _files(path)]
    if not found:
        raise UsageError(
            f"{', '.join(map(str, paths)) or 'nothing'} holds no text: name a file of text, JSON "
            "Lines or Parquet, or a folder of such"
        )
    return [_checked(path) for path in found]


def blocks_of(
    sources: Sequence[Source], field: str, size: int = BLOCK, start: Place | None = None
) -> Iterator[Block]:
    """The blocks of all sources, in order, from ``start`` on.

    ``size``: bytes of a block, unless a line of JSON is longer; ``field``: the column of Parquet
    that holds the text. Raises UsageError, naming the file, for what cannot be read or unpacked.
    """
    start = start or Place(0, 0, 0)
    for number, source in enumerate(sources[start.source :], start.source):
        place = start if number == start.source else Place(number, 0, 0)
        yield from _blocks(source, field, size, place)


def _blocks(source: Source, field: str, size: int, place: Place) -> Iterator[Block]:
    path = Path(source.path)
    lines = _is_lines(path)
    with opened(path, "text") as file, reading(path, "text", "copy or pack it anew"):
        contents: Iterator[bytes] | Iterator[tuple[str, ...]]
        if path.suffix == ".parquet":
            contents = _rows(path, file, field, size, place.at)
        else:
            stream = _unpacked(path, file)
            _skip(stream, place.at, file if stream is file else None)
            contents = _cut(stream, size, lines)
        for content in contents:
            yield Block(source.path, place, content, lines, file.tell())
            place = replace(place, block=place.block + 1, at=place.at + len(content))


def _cut(stream: _Stream, size: int, lines: bool) -> Iterator[bytes]:
    """A stream's content in blocks of about ``size`` bytes."""
    content = b""
    while True:
        more = _exactly(stream, max(size - len(content), 1))
        content += more
        if not more:
            break
        if len(content) < size:
            continue
        cut = content.rfind(b"\n") + 1 if lines else _end_of_block(content)
        while lines and not cut:
            if len(content) > _MOST_LINE:
                raise ValueError(
                    f"a line of JSON is longer than {_MOST_LINE >> 20} MiB, which is the most"
                )
            if not (more := _exactly(stream, len(content))):
                break
            content += more
            cut = content.rfind(b"\n") + 1
        if not cut:
            break
        yield content[:cut]
        content = content[cut:]
    if content:
        yield content


def _end_of_block(content: bytes) -> int:
    """Where to cut text: before the last separator, else before a word, else a character."""
    last = content.rfind(END_OF_DOCUMENT)
    if last > 0 and (end := len(content[:last].rstrip(b"\n"))):
        return end
    start = max(1, len(content) - _LOOK_BACK)
    gaps = [gap.start() for gap in _GAP.finditer(content, start)]
    if gaps:
        return gaps[-1]
    end = len(content)
    while end > len(content) - 4 and end > 1 and content[end - 1] & 0xC0 == 0x80:
        end -= 1  # a byte within a character
    return end - 1 if end > 1 and content[end - 1] & 0x80 else len(content)


def _rows(path: Path, file: IO[bytes], field: str, size: int, at: int) -> Iterator[tuple[str, ...]]:
    """The text of rows of a Parquet file, from row ``at`` on, a block of rows at a time."""
    from pyarrow import parquet

    table = parquet.ParquetFile(file, buffer_size=BLOCK, pre_buffer=False)
    if field not in table.schema_arrow.names:
        names = ", ".join(table.schema_arrow.names)
        raise UsageError(f"{path} has no column {field!r}: choose one of {names} with --field")
    kind = str(table.schema_arrow.field(field).type)
    if kind not in ("string", "large_string", "string_view"):
        raise UsageError(f"{path} has no text in its column {field!r} but {kind}: choose --field")
    rows, groups = table.metadata.num_rows, table.metadata.num_row_groups
    total = sum(table.metadata.row_group(i).total_byte_size for i in range(groups))
    at_once = max(1, min(size, size * rows // max(1, total)))
    for batch in table.iter_batches(at_once, columns=[field], use_threads=False):
        if at >= len(batch):
            at -= len(batch)
            continue
        yield tuple(text or "" for text in batch.column(0)[at:].to_pylist())
        at = 0


def _unpacked(path: Path, file: IO[bytes]) -> _Stream:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=file)
    if path.suffix == ".zst":
        import pyarrow

        unpacked: _Stream = pyarrow.CompressedInputStream(file, "zstd")
        return unpacked
    return file


def _skip(stream: _Stream, at: int, seekable: IO[bytes] | None) -> None:
    if seekable:
        seekable.seek(at)
        return
    while at:
        at -= len(_exactly(stream, min(at, BLOCK))) or at


def _exactly(stream: _Stream, size: int) -> bytes:
    """So many bytes of a stream, or what is left of it."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_lines(path: Path) -> bool:
    name = path.stem if path.suffix in (".gz", ".zst") else path.name
    return name.endswith((".jsonl", ".ndjson"))


def _files(path: Path) -> list[Path]:
    """The file itself, or the files below a folder that are neither hidden nor empty."""
    with reading(path, "text"):
        if not path.is_dir():
            if not path.stat().st_size and path.is_file():
                raise UsageError(f"{path} is empty: it holds no text")
            return [path]
        found = []
        for parent, folders, names in os.walk(path, onerror=_refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(parent, name) for name in names if not name.startswith(".")]
        return sorted(file for file in found if file.is_file() and file.stat().st_size)


def _refuse(error: OSError) -> None:
    raise error


def _checked(path: Path) -> Source:
    """The file as a source, whose first bytes are those of what its name says."""
    magic = _MAGICS.get(path.suffix, b"")
    if path.suffix in (".parquet", ".zst"):
        _check_pyarrow(path)
    with opened(path, "text") as file:
        if file.read(len(magic)) != magic:
            raise UsageError(
                f"{path} is no {path.suffix[1:]} file: its first bytes are others; rename it after "
                "what it is, or copy it anew"
            )
        told = os.fstat(file.fileno())
    return Source(str(path), told.st_size, told.st_mtime_ns)


def _check_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageError(
            f"{path} needs the library pyarrow: pip install 'steptime[parquet]'"
        ) from None
