"""Timeline as tables: intervals and messages, one row each, labels in words, times in seconds."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.files import atomic_file
from steptime.timeline.chrome import quietly
from steptime.timeline.timeline import Phase, Timeline

INTERVAL_COLUMNS = ("rank", "stream", "name", "phase", "step", "start_s", "end_s", "bytes")
MESSAGE_COLUMNS = ("src", "dst", "sent_s", "received_s", "bytes")
_ROWS_AT_ONCE = 50_000

Columns: TypeAlias = Mapping[str, "NDArray[Any] | Labels"]


class Labels:
    """A column of labels, each one the index in ``codes`` of a word in ``words``."""

    def __init__(self, codes: NDArray[Any], words: Sequence[str]) -> None:
        self.codes, self.words = codes.astype(np.int32), tuple(words)

    def __getitem__(self, rows: slice) -> list[str]:
        return [self.words[code] for code in self.codes[rows].tolist()]


def interval_columns(timeline: Timeline) -> Columns:
    """The columns of the intervals, each of shape (intervals,)."""
    rows = timeline.intervals
    columns: Sequence[NDArray[Any] | Labels] = (
        rows["rank"],
        Labels(rows["stream"], timeline.streams),
        Labels(rows["name"], timeline.names),
        Labels(rows["phase"], [phase.name.lower() for phase in Phase]),
        *(rows[field] for field in ("step", "start", "end", "bytes")),
    )
    return dict(zip(INTERVAL_COLUMNS, columns, strict=True))


def message_columns(timeline: Timeline) -> Columns:
    """The columns of the messages, each of shape (messages,)."""
    fields = ("src", "dst", "sent", "received", "bytes")
    columns = (timeline.messages[field] for field in fields)
    return dict(zip(MESSAGE_COLUMNS, columns, strict=True))


def write_csv(path: Path, columns: Columns, tell: Callable[[int, int], None] = quietly) -> None:
    """Write columns as CSV (RFC 4180) with a line of their names, in pieces, atomically."""
    with atomic_file(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text)
        writer.writerow(columns)
        for rows, done, whole in _pieces(columns):
            parts = (column[rows] for column in columns.values())
            lists = (part if isinstance(part, list) else part.tolist() for part in parts)
            writer.writerows(zip(*lists, strict=True))
            tell(done, whole)
        text.flush()
        text.detach()


def check_parquet() -> None:
    """Raise UsageError where the package that writes Parquet is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UsageError(
            "Parquet needs the package pyarrow: pip install 'steptime[parquet]', or export to csv"
        ) from None


def write_parquet(path: Path, columns: Columns, tell: Callable[[int, int], None] = quietly) -> None:
    """Write columns as Parquet, in pieces, atomically; labels are dictionaries.

    Raises UsageError where pyarrow is missing.
    """
    check_parquet()
    import pyarrow
    from pyarrow import parquet

    def array(column: NDArray[Any] | Labels, rows: slice) -> Any:
        if isinstance(column, Labels):
            codes = pyarrow.array(column.codes[rows])
            return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(column.words, "string"))
        return pyarrow.array(np.ascontiguousarray(column[rows]))

    def batch(rows: slice) -> Any:
        arrays = [array(column, rows) for column in columns.values()]
        return pyarrow.record_batch(arrays, names=list(columns))

    with (
        atomic_file(path) as file,
        parquet.ParquetWriter(file, batch(slice(0)).schema, compression="zstd") as writer,
    ):
        for rows, done, whole in _pieces(columns):
            writer.write_batch(batch(rows))
            tell(done, whole)


def _pieces(columns: Columns) -> Iterator[tuple[slice, int, int]]:
    """Slices of a thousand rows, each with the number of rows done then and in all."""
    first = next(iter(columns.values()))
    whole = len(first.codes if isinstance(first, Labels) else first)
    for begin in range(0, whole, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, whole)
        yield slice(begin, end), end, whole
