"""Rows: measured training steps, as a CSV file has them.

A value that ends in a question mark is assumed, an empty one unstated. Columns that are not among
COLUMNS are ignored.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_bytes, reading

COLUMNS = (
    *("source", "model", "params", "hidden", "layers", "heads", "kv_heads", "ffn", "seq", "vocab"),
    *("gpu", "n_gpus", "tp", "pp", "vpp", "dp", "cp", "ep", "sp", "micro_batch", "global_batch"),
    *("precision", "recompute", "zero_fsdp", "step_s", "tflops_per_gpu", "mfu_pct"),
    *("tokens_per_s_gpu", "mem_gib", "target", "n_logs", "complete", "note"),
)
"""What a file has: a model, a machine, a layout, and what was measured; batches in sequences."""

COUNTS = (
    *("hidden", "layers", "heads", "kv_heads", "ffn", "seq", "vocab", "n_gpus"),
    *("tp", "pp", "vpp", "dp", "cp", "ep", "micro_batch", "global_batch"),
)
MEASURED = ("step_s", "tflops_per_gpu", "mfu_pct", "tokens_per_s_gpu", "mem_gib")
_TEXTS = ("source", "model", "gpu", "sp", "precision", "recompute", "zero_fsdp", "target", "note")
_MOST_BYTES = 64 << 20
_MOST_COUNT = (1 << 31) - 1
_PERCENT = 100.0
_APART = 30.0
"""How far a step's time may be from the tokens a second beside it: 1,000 times is another unit."""

_CRASHED = ("crash", "oom", "out of memory")
_SHIPPED = files("steptime.plan") / "rows"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured step, or one that crashed; None and empty texts stand for what is unstated.

    ``line``: where it stands in its file, from 1. ``assumed``: the columns that whoever wrote the
    row assumed. ``step_s`` in seconds, ``mem_gib`` in GiB a device, ``micro_batch`` and
    ``global_batch`` in sequences, ``mfu_pct`` in percent, ``tflops_per_gpu`` in 10¹² FLOP/s.
    """

    line: int
    source: str
    model: str
    gpu: str
    sp: str
    precision: str
    recompute: str
    zero_fsdp: str
    target: str
    note: str
    params: float | None
    hidden: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    ffn: int | None
    seq: int | None
    vocab: int | None
    n_gpus: int | None
    tp: int | None
    pp: int | None
    vpp: int | None
    dp: int | None
    cp: int | None
    ep: int | None
    micro_batch: int | None
    global_batch: int | None
    step_s: float | None
    tflops_per_gpu: float | None
    mfu_pct: float | None
    tokens_per_s_gpu: float | None
    mem_gib: float | None
    crashed: bool
    assumed: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Whose rows it is summed up with: those of its source and GPU."""
        return f"{self.source} {self.gpu}"


def read_rows(path: Path) -> tuple[Row, ...]:
    """The rows of a CSV file with COLUMNS.

    Raises UsageError naming the line where a column is missing, a value is no number or cannot be,
    or a measured row stands there twice.
    """
    content = bounded_bytes(path, "file of measured steps", _MOST_BYTES)
    with reading(path, "file of measured steps"):
        return tuple(_rows(content.decode("utf-8-sig"), str(path)))


@cache
def shipped_rows() -> tuple[Row, ...]:
    """All rows that steptime ships, file by file in the order of their names."""
    names = sorted(file.name for file in _SHIPPED.iterdir() if file.name.endswith(".csv"))
    found: list[Row] = []
    for name in names:
        with as_file(_SHIPPED / name) as path:
            found += read_rows(path)
    return tuple(found)


def _rows(text: str, name: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, [])
    _check_header(header, name)
    seen: dict[tuple[str, ...], int] = {}
    for values in reader:
        line = reader.line_num
        if not any(values):
            continue
        if len(values) != len(header):
            raise UsageError(
                f"line {line} of {name} has {len(values)} values for {len(header)} columns"
            )
        row = _row(dict(zip(header, map(str.strip, values), strict=True)), line, name)
        if row.step_s or row.mem_gib:
            first = seen.setdefault(tuple(values), line)
            if first != line:
                raise UsageError(f"line {line} of {name} is line {first} again: leave one out")
        yield row
    if not reader.line_num > 1:
        raise UsageError(f"{name} has no rows below its first line: add a measured step")


def _check_header(header: list[str], name: str) -> None:
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise UsageError(
            f"line 1 of {name} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}: "
            f"a file of measured steps has {', '.join(COLUMNS)}"
        )
    twice = next((column for column in header if header.count(column) > 1), None)
    if twice is not None:
        raise UsageError(f"line 1 of {name} has the column {twice!r} twice: leave one out")


def _row(values: Mapping[str, str], line: int, name: str) -> Row:
    where = f"line {line} of {name}"
    crashed = any(
        word in values[column].casefold()
        for word in _CRASHED
        for column in ("note", "target", "mem_gib")
    )
    certain = {key: value.removesuffix("?").strip() for key, value in values.items()}
    if crashed and not _is_number(certain["mem_gib"]):
        certain["mem_gib"] = ""
    row = Row(
        line=line,
        crashed=crashed,
        assumed=tuple(key for key in COLUMNS if values[key].endswith("?")),
        params=_number(certain, "params", where),
        **{key: certain[key] for key in _TEXTS},  # type: ignore[arg-type]
        **{key: _count(certain, key, where) for key in COUNTS},  # type: ignore[arg-type]
        **{key: _number(certain, key, where) for key in MEASURED},  # type: ignore[arg-type]
    )
    _check_units(row, where)
    return row


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _number(values: Mapping[str, str], key: str, where: str) -> float | None:
    """A number above 0, None where none is stated; what rounds to 0 may be."""
    text = values[key]
    if not text:
        return None
    if not _is_number(text):
        raise UsageError(f"{where}: {key} is {text!r}: it must be a number, or empty")
    value = float(text)
    if value < 0 or (value == 0 and key not in ("mem_gib", "mfu_pct")):
        raise UsageError(f"{where}: {key} is {text}: it must be above 0, or empty if unstated")
    return value


def _count(values: Mapping[str, str], key: str, where: str) -> int | None:
    value = _number(values, key, where)
    if value is None:
        return None
    if value != int(value) or value > _MOST_COUNT:
        raise UsageError(f"{where}: {key} is {values[key]}: it must be a whole number below 2^31")
    return int(value)


def _check_units(row: Row, where: str) -> None:
    """Refuse figures that no unit of the columns' own makes possible."""
    if row.mfu_pct is not None and row.mfu_pct > _PERCENT:
        raise UsageError(
            f"{where}: mfu_pct is {row.mfu_pct:g}: it is in percent of the peak, {_PERCENT:g} most"
        )
    if None in (row.step_s, row.tokens_per_s_gpu, row.n_gpus, row.global_batch, row.seq):
        return
    assert row.step_s and row.tokens_per_s_gpu and row.n_gpus  # noqa: S101 - for the type checker
    tokens = float(row.global_batch or 0) * float(row.seq or 0)
    counted = row.step_s * row.tokens_per_s_gpu * row.n_gpus
    if not tokens / _APART <= counted <= tokens * _APART:
        raise UsageError(
            f"{where}: step_s {row.step_s:g} with {row.tokens_per_s_gpu:g} tokens_per_s_gpu makes "
            f"{counted:.3g} tokens a step, not the {tokens:.3g} of global_batch times seq: step_s "
            "is in seconds, global_batch in sequences"
        )
