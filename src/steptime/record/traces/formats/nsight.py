"""Nsight Systems' export to SQLite: kernels, NCCL's by their names, and the ranges of NVTX.

``nsys export --type sqlite``. Tables, as its documentation of the schema has them:
CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, shortName, demangledName;
names are ids of StringIds), NVTX_EVENTS (start, end, text, textId, eventType), and
TARGET_INFO_SESSION_START_TIME (utcEpochNs), from which times are counted. A rank is a device.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote

from steptime.errors import UsageError
from steptime.record.read import Group
from steptime.record.traces.document import Document
from steptime.record.traces.format import Format
from steptime.record.traces.naming import kind_of
from steptime.record.traces.trace import Call, RankTrace, Span, Step
from steptime.timeline import Phase

_KERNELS, _RANGES, _START = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "NVTX_EVENTS",
    "TARGET_INFO_SESSION_START_TIME",
)
MOST_ROWS = 1 << 23
"""Kernels or ranges of an export; they take some hundred bytes each in memory."""

_PUSH_POP, _START_END = 59, 60  # eventType of a range
_KERNEL_ROWS = """
    SELECT k.start, k.end, k.deviceId, k.streamId, s.value
    FROM CUPTI_ACTIVITY_KIND_KERNEL AS k LEFT JOIN StringIds AS s ON s.id = k.shortName
    ORDER BY k.start
"""
_RANGE_ROWS = """
    SELECT coalesce(n.text, s.value), n.start, n.end
    FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
    WHERE n.end IS NOT NULL AND n.eventType IN (?, ?) ORDER BY n.start
"""
_LONGEST_NAME = 120
_STEP = re.compile(r"^(.*?(?:step|iter(?:ation)?|batch))\W*(\d{0,15})$", re.IGNORECASE)
_UNTOLD = ("the groups of calls", "when one host thread waited for another")


def _is_export(document: Document) -> bool:
    return document.is_database and _KERNELS in _tables(document)


def _tables(document: Document) -> set[str]:
    with closing(_opened(document)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def _opened(document: Document) -> sqlite3.Connection:
    """The database, never written to: not even a journal is looked for."""
    size, told = document.path.stat().st_size, _told_size(document.beginning)
    if size < told:
        raise UsageError(
            f"the database {document.path} was cut off: it has {size:,} of {told:,} bytes"
        )
    path = quote(str(document.path.resolve()))
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        database.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise UsageError(
            f"cannot read the database {document.path}: {error}; export it from Nsight again"
        ) from None
    return database


def _told_size(header: bytes) -> int:
    """The bytes of a database, as its header says: the format's document, section 1.3."""
    page = int.from_bytes(header[16:18], "big")
    return (page if page > 1 else 1 << 16) * int.from_bytes(header[28:32], "big")


def _read(document: Document) -> list[RankTrace]:
    tables = _tables(document)
    with closing(_opened(document)) as database:
        for table in {_KERNELS, _RANGES} & tables:
            count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
            if count > MOST_ROWS:
                raise ValueError(f"{table} has {count:,} rows, and at most {MOST_ROWS:,} are read")
        base = 0
        if _START in tables:
            row = database.execute(f"SELECT utcEpochNs FROM {_START}").fetchone()  # noqa: S608
            base = int(row[0] or 0) if row else 0
        kernels = list(_kernels(database))
        steps, steps_by = _steps(list(_ranges(database)) if _RANGES in tables else [], base)
    devices = sorted({row[2] for row in kernels})
    alone = len(devices) == 1
    return [
        _of_device(
            -1 if alone else rank,
            -1 if alone else len(devices),
            [row for row in kernels if row[2] == device],
            (steps, steps_by),
            base,
        )
        for rank, device in enumerate(devices)
    ]


def _kernels(database: sqlite3.Connection) -> Iterator[tuple[int, int, int, int, str]]:
    """Begin, end, device, stream and name of each kernel, in order of begin."""
    for begin, end, device, stream, name in database.execute(_KERNEL_ROWS):
        yield int(begin), int(end), int(device), int(stream), str(name or "kernel")[:_LONGEST_NAME]


def _ranges(database: sqlite3.Connection) -> Iterator[tuple[str, int, int]]:
    """Text, begin and end of each range of NVTX that has ended, in order of begin."""
    for text, begin, end in database.execute(_RANGE_ROWS, (_PUSH_POP, _START_END)):
        yield str(text or ""), int(begin), int(end)


def _steps(ranges: Sequence[tuple[str, int, int]], base: int) -> tuple[list[Step], str]:
    """The ranges called a step, an iteration or a batch: of several names those that last most."""
    by_name: dict[str, list[tuple[str, int, int]]] = {}
    for text, begin, end in ranges:
        said = _STEP.match(text)
        if said is not None:
            by_name.setdefault(said[1], []).append((said[2], begin, end))
    if not by_name:
        return [], ""
    name = max(by_name, key=lambda name: sum(end - begin for _, begin, end in by_name[name]))
    own = by_name[name]
    numbers = [number for number, _, _ in own]
    counted = all(numbers) and len(set(map(int, numbers))) == len(numbers)
    return [
        Step(int(number) if counted else at, base + begin, base + end)
        for at, (number, begin, end) in enumerate(own)
    ], f"the range {name.strip()} of NVTX"


def _of_device(
    rank: int,
    ranks: int,
    rows: Sequence[tuple[Any, ...]],
    marked: tuple[list[Step], str],
    base: int,
) -> RankTrace:
    group = Group("group not told", "nccl", tuple(range(max(1, ranks))))
    spans, calls = [], []
    for begin, end, _, stream, name in rows:
        span = base + begin, base + max(begin, end)
        if "nccl" in name.lower():
            kind = kind_of(name) or "all_reduce"
            calls.append(Call(kind, group, 0, *span, f"stream {stream}"))
        else:
            spans.append(Span(f"stream {stream}", name, Phase.COMPUTE, *span))
    return RankTrace(
        rank=rank,
        world_size=ranks,
        backend="nccl" if calls else "",
        steps=marked[0],
        steps_by=marked[1],
        spans=spans,
        calls=calls,
        untold=_UNTOLD,
    )


FORMAT = Format("Nsight Systems export", _is_export, _read)
