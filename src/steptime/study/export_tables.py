"""What the formats of tables have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from steptime.study.export import Exporting
from steptime.timeline.tables import interval_columns, message_columns

OPENED_BY = "one row an interval or message; times in seconds"


def write_tables(asked: Exporting, suffix: str, write: Callable[..., Any]) -> list[Path]:
    """The intervals and the messages of a run, each by ``write`` in a file of its own."""
    timeline = asked.timeline
    tables = {"intervals": interval_columns(timeline), "messages": message_columns(timeline)}
    paths = []
    for name, columns in tables.items():
        paths.append(asked.folder / f"{name}.{suffix}")
        write(paths[-1], columns, asked.tell)
    return paths
