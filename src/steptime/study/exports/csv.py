"""tables of intervals and messages, as text."""

from pathlib import Path

from steptime.study.export import Export, Exporting
from steptime.study.export_tables import OPENED_BY, write_tables
from steptime.timeline.tables import write_csv


def write(asked: Exporting) -> list[Path]:
    """A file for each table."""
    return write_tables(asked, "csv", write_csv)


EXPORT = Export(opened_by=OPENED_BY, write=write)
