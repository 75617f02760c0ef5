"""tables of intervals and messages, in columns."""

from pathlib import Path

from steptime.study.export import Export, Exporting
from steptime.study.export_tables import OPENED_BY, write_tables
from steptime.timeline.tables import check_parquet, write_parquet


def write(asked: Exporting) -> list[Path]:
    """A file for each table."""
    return write_tables(asked, "parquet", write_parquet)


EXPORT = Export(opened_by=OPENED_BY, write=write, check=check_parquet)
